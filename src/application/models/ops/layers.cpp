#include "application/models/ops/layers.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/autograd.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "application/models/ops/gradient_target.h"
#include "application/models/ops/lookup.h"
#include "application/models/ops/product.h"
#include "application/models/ops/residual.h"
#include "application/models/ops/row_kernels.h"
#include "core/base/error.h"
#include "core/device/backend.h"
#include "core/device/second_order.h"

namespace chorus::inline ops {
namespace {

// Calls work(begin, count) for pieces of `count` elements, in parallel.
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
    if (!x.requires_grad()) {
      for_pieces(from.numel(), [&](std::int64_t at, std::int64_t n) { gelu_row(in + at, out + at, n, by_tanh); });
      return y;
    }
    at::Tensor slopes = torch::empty_like(from);
    float* slope = slopes.data_ptr<float>();
    for_pieces(from.numel(),
               [&](std::int64_t at, std::int64_t n) { gelu_slope_row(in + at, out + at, slope + at, n, by_tanh); });
    context->save_for_backward({slopes});
    return y;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    // The slopes become the gradients in place, because a graph is used once.
    const at::Tensor slopes = context->get_saved_variables()[0], up = gradients[0].contiguous();
    const float* dy = up.data_ptr<float>();
    float* slope = slopes.data_ptr<float>();
    for_pieces(slopes.numel(), [&](std::int64_t at, std::int64_t n) { multiply_row(slope + at, dy + at, n); });
    return {slopes, at::Tensor()};
  }
};

}  // namespace

Linear Linear::add(Layout& layout, const std::string& name, const Shape& shape, Init init) {
  Linear result;
  result.transposed = shape.transposed;
  result.weight = layout.add(name + ".weight",
                             shape.transposed ? std::vector<std::int64_t>{shape.in, shape.out}
                                              : std::vector<std::int64_t>{shape.out, shape.in},
                             init);
  if (shape.with_bias) result.bias = layout.add(name + ".bias", {shape.out}, Init::zeros());
  layout.mark_matmul_weight(result.weight);
  return result;
}

std::vector<Linear> Linear::add_joined(Layout& layout, const std::vector<std::string>& names, const Shape& shape,
                                       Init init) {
  check(shape.with_bias && !shape.transposed, "only plain layers are joined");
  std::vector<Linear> all(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    all[i].weight = layout.add(names[i] + ".weight", {shape.out, shape.in}, init);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    all[i].bias = layout.add(names[i] + ".bias", {shape.out}, Init::zeros());
  }
  for (const Linear& linear : all) layout.mark_matmul_weight(linear.weight);
  layout.join(all[0].weight, static_cast<int>(names.size()));
  layout.join(all[0].bias, static_cast<int>(names.size()));
  return all;
}

Linear Linear::attach(Layout& layout, const std::string& name, const Shape& shape, Init init) {
  Linear result;
  result.weight = layout.attach(name + ".weight", {shape.out, shape.in}, init);
  if (shape.with_bias) result.bias = layout.attach(name + ".bias", {shape.out}, Init::zeros());
  layout.mark_matmul_weight(result.weight);
  return result;
}

at::Tensor Linear::operator()(const Params& params, const at::Tensor& x) const {
  return with_update(params, x, product(params, {weight, bias, transposed}, x));
}

at::Tensor Linear::without_bias(const Params& params, const at::Tensor& x) const {
  return with_update(params, x, product(params, {weight, {}, transposed}, x));
}

at::Tensor Linear::with_update(const Params& params, const at::Tensor& x, const at::Tensor& y) const {
  if (!update.a.exists()) return y;
  return y + product(params, {update.b}, product(params, {update.a}, x) * update.scale);
}

at::Tensor for_matmuls(const Params& params, const at::Tensor& x) {
  return params.shadow().exists() && x.is_cuda() ? x.to(at::kBFloat16) : x;
}

at::Tensor project_to_table(const Params& params, ParamId table, const at::Tensor& x) {
  return product(params, {table}, x);
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
  return look_up(value, ids, padding, gradient_target(params, table, 1));
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
  if (SecondOrder::active()) {  // LibTorch 1.13's norm without weights has a wrong second derivative
    const at::Tensor centred = x - x.mean(-1, true);
    const at::Tensor normal = centred * torch::rsqrt(centred.square().mean(-1, true) + epsilon);
    return torch::addcmul(over_tokens(params, bias), normal, over_tokens(params, weight));
  }
  const std::int64_t width = x.size(-1);
  if (uses_gpu_kernels(x)) {
    if (const at::Tensor y = cohort_norm(params, *this, x); y.defined()) return y;
  }
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
  if (backend_for(x, {.cpu = is_float(x)}) == Backend::kCpu) return GeluRows::apply(x, by_tanh);
  // LibTorch 1.13's backward pass (oneDNN) reads a strided gradient as if it were contiguous.
  if (SecondOrder::active() && !by_tanh) return 0.5 * x * (1 + torch::erf(x * M_SQRT1_2));
  return torch::gelu(x, by_tanh ? "tanh" : "none");
}

at::Tensor activate(Activation activation, const Params& params, const Linear& linear, const at::Tensor& x) {
  const bool is_gelu = activation == Activation::kGelu || activation == Activation::kGeluTanh;
  if (!is_gelu || linear.update.a.exists()) return activate(activation, linear(params, x));
  return gelu_product(params, {linear.weight, linear.bias, linear.transposed}, x, activation == Activation::kGeluTanh);
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

}  // namespace chorus::inline ops
