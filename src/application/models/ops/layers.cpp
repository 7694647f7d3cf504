#include "application/models/ops/layers.h"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <fmt/format.h>
#include <torch/autograd.h>
#include <torch/version.h>

#include <algorithm>
#include <array>

#include "application/models/ops/residual.h"
#include "application/models/ops/row_kernels.h"
#include "core/error.h"

namespace chorus {
namespace {

// One table a client. LibTorch has no such gather whose gradient stays one dense tensor, hence this function.
class CohortLookup : public torch::autograd::Function<CohortLookup> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& tables, const at::Tensor& ids,
                            std::int64_t padding) {
    context->save_for_backward({ids});
    context->saved_data["rows"] = tables.size(1);
    context->saved_data["padding"] = padding;
    // One launch for all clients; on a CPU whole rows are copied faster.
    if (!tables.is_cpu()) return tables.gather(1, ids.unsqueeze(2).expand({-1, -1, tables.size(2)}));
    std::vector<at::Tensor> parts;
    for (std::int64_t c = 0; c < tables.size(0); ++c) parts.push_back(tables[c].index_select(0, ids[c]));
    return torch::stack(parts);
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list outputs) {
    const at::Tensor ids = context->get_saved_variables()[0];
    const at::Tensor& gradient = outputs[0];
    at::Tensor result =
        torch::zeros({gradient.size(0), context->saved_data["rows"].toInt(), gradient.size(2)}, gradient.options());
    if (!gradient.is_cpu()) {
      result.scatter_add_(1, ids.unsqueeze(2).expand({-1, -1, gradient.size(2)}), gradient);
    } else {
      for (std::int64_t c = 0; c < gradient.size(0); ++c) result[c].index_add_(0, ids[c], gradient[c]);
    }
    const std::int64_t padding = context->saved_data["padding"].toInt();
    if (padding >= 0) result.select(1, padding).zero_();
    return {result, at::Tensor(), at::Tensor()};
  }
};

// A row kernel for each piece of a tensor's numbers.
template <typename Work>
void for_pieces(std::int64_t count, const Work& work) {
  constexpr std::int64_t kPiece = 4096;
  at::parallel_for(0, (count + kPiece - 1) / kPiece, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) work(i * kPiece, std::min(kPiece, count - i * kPiece));
  });
}

class GeluRows : public torch::autograd::Function<GeluRows> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, bool by_tanh) {
    const at::Tensor from = x.contiguous();
    at::Tensor y = torch::empty_like(from);
    const float* in = from.data_ptr<float>();
    float* out = y.data_ptr<float>();
    for_pieces(from.numel(), [&](std::int64_t at, std::int64_t n) { gelu_row(in + at, out + at, n, by_tanh); });
    context->save_for_backward({from});
    context->saved_data["by tanh"] = by_tanh;
    return y;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const at::Tensor from = context->get_saved_variables()[0], up = gradients[0].contiguous();
    const bool by_tanh = context->saved_data["by tanh"].toBool();
    at::Tensor result = torch::empty_like(from);
    const float *in = from.data_ptr<float>(), *dy = up.data_ptr<float>();
    float* out = result.data_ptr<float>();
    for_pieces(from.numel(),
               [&](std::int64_t at, std::int64_t n) { gelu_gradient_row(in + at, dy + at, out + at, n, by_tanh); });
    return {result, at::Tensor()};
  }
};

// x [C, T, in] times the transpose of w [C, out, in] or [out, in], plus b.
at::Tensor affine(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (weight.dim() == 2) {
    at::Tensor y = torch::matmul(x, weight.t());
    if (!bias.defined()) return y;
    return y + (bias.dim() == 2 ? bias.unsqueeze(1) : bias);
  }
  if (weight.size(0) == 1) {
    const at::Tensor rows = x.squeeze(0);
    const at::Tensor matrix = weight.squeeze(0).t();
    const at::Tensor y =
        bias.defined() ? torch::addmm(bias.dim() == 2 ? bias.squeeze(0) : bias, rows, matrix) : torch::mm(rows, matrix);
    return y.unsqueeze(0);
  }
  const at::Tensor matrix = weight.transpose(1, 2);
  if (!bias.defined()) return torch::bmm(x, matrix);
  return torch::baddbmm(bias.dim() == 2 ? bias.unsqueeze(1) : bias, x, matrix);
}

}  // namespace

Linear Linear::add(Layout& layout, const std::string& name, const Shape& shape, Init init) {
  Linear result;
  result.transposed = shape.transposed;
  result.weight = layout.add(name + ".weight",
                             shape.transposed ? std::vector<std::int64_t>{shape.in, shape.out}
                                              : std::vector<std::int64_t>{shape.out, shape.in},
                             init);
  if (shape.with_bias) result.bias = layout.add(name + ".bias", {shape.out}, Init::zeros());
  return result;
}

Linear Linear::attach(Layout& layout, const std::string& name, const Shape& shape, Init init) {
  Linear result;
  result.weight = layout.attach(name + ".weight", {shape.out, shape.in}, init);
  if (shape.with_bias) result.bias = layout.attach(name + ".bias", {shape.out}, Init::zeros());
  return result;
}

at::Tensor Linear::operator()(const Params& params, const at::Tensor& x) const {
  const at::Tensor& stored = params[weight];
  const at::Tensor y =
      affine(x, transposed ? stored.transpose(-1, -2) : stored, bias.exists() ? params[bias] : at::Tensor());
  if (!update.a.exists()) return y;
  return y + affine(affine(x, params[update.a], {}), params[update.b], {}) * update.scale;
}

at::Tensor for_products(const at::Tensor& x) {
  if (!x.is_cuda()) return x;
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
  return at::autocast::is_autocast_enabled(at::kCUDA) ? x.to(at::autocast::get_autocast_dtype(at::kCUDA)) : x;
#else
  return at::autocast::is_enabled() ? x.to(at::autocast::get_autocast_gpu_dtype()) : x;
#endif
}

at::Tensor project_to_table(const Params& params, ParamId table, const at::Tensor& x) {
  return affine(x, params[table], at::Tensor());
}

at::Tensor over_tokens(const Params& params, ParamId id) {
  const at::Tensor& value = params[id];
  return params.trainable(id) ? value.unsqueeze(1) : value;
}

Embedding Embedding::add(Layout& layout, const std::string& name, std::int64_t rows, std::int64_t width, Init init) {
  return {.table = layout.add(name + ".weight", {rows, width}, init)};
}

at::Tensor Embedding::operator()(const Params& params, const at::Tensor& ids) const {
  const at::Tensor& value = params[table];
  if (!params.trainable(table)) return torch::embedding(value, ids);
  if (value.size(0) == 1) return torch::embedding(value.squeeze(0), ids, padding);
  return CohortLookup::apply(value, ids, padding);
}

Norm Norm::add(Layout& layout, const std::string& name, std::int64_t width, double epsilon) {
  return {layout.add(name + ".weight", {width}, Init::ones()), layout.add(name + ".bias", {width}, Init::zeros()),
          epsilon};
}

Norm Norm::add_rms(Layout& layout, const std::string& name, std::int64_t width, double epsilon) {
  return {layout.add(name + ".weight", {width}, Init::ones()), {}, epsilon};
}

at::Tensor Norm::operator()(const Params& params, const at::Tensor& x) const {
  if (!bias.exists()) {
    const at::Tensor inverse = torch::rsqrt(x.pow(2).mean(-1, true) + epsilon);
    return x * inverse * over_tokens(params, weight);
  }
  const std::int64_t width = x.size(-1);
  const bool shared = params.clients() == 1 || (!params.trainable(weight) && !params.trainable(bias));
  if (shared) return torch::layer_norm(x, {width}, params[weight].view({width}), params[bias].view({width}), epsilon);
  if (const at::Tensor y = cohort_norm(params, *this, x); y.defined()) return y;
  const at::Tensor normal = torch::layer_norm(x, {width}, {}, {}, epsilon);
  return torch::addcmul(over_tokens(params, bias), normal, over_tokens(params, weight));
}

Activation activation_named(const std::string& name) {
  static const std::array<std::pair<const char*, Activation>, 9> kNames{{{"gelu", Activation::kGelu},
                                                                         {"gelu_python", Activation::kGelu},
                                                                         {"gelu_new", Activation::kGeluTanh},
                                                                         {"gelu_pytorch_tanh", Activation::kGeluTanh},
                                                                         {"gelu_fast", Activation::kGeluTanh},
                                                                         {"relu", Activation::kRelu},
                                                                         {"tanh", Activation::kTanh},
                                                                         {"silu", Activation::kSilu},
                                                                         {"swish", Activation::kSilu}}};
  for (const auto& [known, activation] : kNames) {
    if (name == known) return activation;
  }
  throw DataError(fmt::format("the activation '{}' is unknown; Chorus has gelu, gelu_new, relu, tanh and silu", name));
}

at::Tensor gelu(const at::Tensor& x, bool by_tanh) {
  if (x.is_cpu() && x.scalar_type() == at::kFloat) return GeluRows::apply(x, by_tanh);
  return torch::gelu(x, by_tanh ? "tanh" : "none");
}

at::Tensor activate(Activation activation, const at::Tensor& x) {
  switch (activation) {
    case Activation::kGelu:
      return gelu(x, false);
    case Activation::kGeluTanh:
      return gelu(x, true);
    case Activation::kRelu:
      return torch::relu(x);
    case Activation::kTanh:
      return torch::tanh(x);
    case Activation::kSilu:
      return torch::silu(x);
  }
  throw InternalError("an activation without a function");
}

}  // namespace chorus
