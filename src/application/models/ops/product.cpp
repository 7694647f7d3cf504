#include "application/models/ops/product.h"

#include <torch/autograd.h>
#include <torch/version.h>

#include "application/models/ops/gpu_rows.h"
#include "application/models/ops/layers.h"
#include "core/error.h"

// baddbmm of bfloat16 that adds to float32, on a GPU
#define CHORUS_WIDE_SUMS (TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 8))

namespace chorus {
namespace {

at::Tensor none() { return torch::empty({0}); }
bool exists(const at::Tensor& x) { return x.numel() > 0; }

// [C, T, in] times [C, in, out] or [in, out].
at::Tensor times(const at::Tensor& x, const at::Tensor& w) {
  if (w.dim() == 3 && w.size(0) > 1) return torch::bmm(x, w);
  return torch::mm(x.reshape({-1, x.size(2)}), w.dim() == 3 ? w.squeeze(0) : w).view({x.size(0), x.size(1), -1});
}

// times(x, w) + b, b [C, out] or [out]
at::Tensor times_plus(const at::Tensor& b, const at::Tensor& x, const at::Tensor& w) {
  if (x.is_cuda()) {
    at::Tensor y = times(x, w);
    if (!gpu_rows_can(y) || y.size(2) % 4 != 0) return y.add_(b.dim() == 2 ? b.unsqueeze(1) : b);
    gpu_add_bias(y, b);
    return y;
  }
  const at::Tensor bias = b.to(x.scalar_type());
  if (w.dim() == 3 && w.size(0) > 1) return torch::baddbmm(bias.dim() == 2 ? bias.unsqueeze(1) : bias, x, w);
  if (bias.dim() == 2 && bias.size(0) > 1) return times(x, w).add_(bias.unsqueeze(1));
  return torch::addmm(bias.dim() == 2 ? bias.squeeze(0) : bias, x.reshape({-1, x.size(2)}),
                      w.dim() == 3 ? w.squeeze(0) : w)
      .view({x.size(0), x.size(1), -1});
}

// sum [C, m, n] = a^T b, or += it, for a [C, T, m] and b [C, T, n]
void put_product(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b, bool add) {
  at::Tensor out = sum.size(0) == 1 ? sum.squeeze(0) : sum;
  const at::Tensor left = sum.size(0) == 1 ? a.squeeze(0).t() : a.transpose(1, 2);
  const at::Tensor right = sum.size(0) == 1 ? b.squeeze(0) : b;
  const int keep = add ? 1 : 0;
  if (out.scalar_type() != left.scalar_type()) {
#if CHORUS_WIDE_SUMS
    if (out.is_cuda() && out.dim() == 2) {
      at::addmm_out(out, out, left, right, at::kFloat, keep);
      return;
    }
    if (out.is_cuda()) {
      at::baddbmm_out(out, out, left, right, at::kFloat, keep);
      return;
    }
#endif
    if (!add) out.zero_();
    out.add_(torch::matmul(left, right));
  } else if (out.dim() == 2) {
    out.addmm_(left, right, keep);
  } else {
    out.baddbmm_(left, right, keep);
  }
}

/// The target of a product's weight, or of several that are one, among those whose gradients are written.
struct Target : torch::CustomClassHolder {
  Target(c10::intrusive_ptr<Params::Written> of, int begin, int number)
      : written(std::move(of)), first(begin), count(number) {}

  // Whether the gradient holds something to add to; it does from now on. What has other parts written alone is filled.
  bool take(const at::Tensor& gradient) const {
    const auto begin = written->parameters.begin() + first, end = begin + count;
    const auto known = std::count(begin, end, std::uint8_t{1});
    if (known != 0 && known != count) {
      const std::int64_t dimension = gradient.dim() - 2, rows = gradient.size(dimension) / count;
      for (int i = 0; i < count; ++i) {
        if (begin[i] == 0) gradient.narrow(dimension, i * rows, rows).zero_();
      }
    }
    std::fill(begin, end, std::uint8_t{1});
    return known != 0;
  }

  c10::intrusive_ptr<Params::Written> written;
  int first, count;
};

// sum [C, n] += the rows of x [C, T, n]
void add_rows(const at::Tensor& sum, const at::Tensor& x) {
  if (gpu_rows_can(x)) {
    gpu_column_sums(x, sum);
  } else {
    sum.add_(x.sum(1));
  }
}

class CohortProduct : public torch::autograd::Function<CohortProduct> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, const at::Tensor& half, bool transposed,
                            const c10::intrusive_ptr<Target>& target) {
    const at::Tensor& stored = exists(half) ? half : weight;
    const at::Tensor in = x.to(stored.scalar_type());
    const at::Tensor matrix = transposed ? stored : stored.transpose(-1, -2);
    context->save_for_backward({in, weight, bias, half});
    context->saved_data["transposed"] = transposed;
    if (target) context->saved_data["target"] = torch::IValue::make_capsule(target);
    context->saved_data["x"] = x.requires_grad();
    context->saved_data["type"] = x.scalar_type();
    return exists(bias) ? times_plus(bias, in, matrix) : times(in, matrix);
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &in = saved[0], &weight = saved[1], &bias = saved[2];
    const at::Tensor& stored = exists(saved[3]) ? saved[3] : weight;
    const bool transposed = context->saved_data["transposed"].toBool();
    const at::NoGradGuard no_grad;
    const at::Tensor dy = gradients[0].to(in.scalar_type()).contiguous();
    if (weight.requires_grad()) {
      const auto target = c10::static_intrusive_pointer_cast<Target>(context->saved_data["target"].toCapsule());
      const bool add = target->take(weight.grad());
      transposed ? put_product(weight.grad(), in, dy, add) : put_product(weight.grad(), dy, in, add);
    }
    if (exists(bias) && bias.requires_grad()) add_rows(bias.grad(), dy);
    at::Tensor dx;
    if (context->saved_data["x"].toBool()) {
      dx = times(dy, transposed ? stored.transpose(-1, -2) : stored).to(context->saved_data["type"].toScalarType());
    }
    return {dx, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

c10::intrusive_ptr<Target> target_of(const Params& params, ParamId first, int count) {
  if (!params.trainable(first) || !params.written()) return {};
  return c10::make_intrusive<Target>(params.written(), first.index, count);
}

// gelu(x + b) on a GPU
class BiasGelu : public torch::autograd::Function<BiasGelu> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& bias,
                            bool by_tanh) {
    const at::Tensor from = x.contiguous();
    context->save_for_backward({from, bias});
    context->saved_data["by tanh"] = by_tanh;
    return gpu_bias_gelu(from, exists(bias) ? bias : at::Tensor(), by_tanh);
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& bias = saved[1];
    const at::Tensor dx = gpu_bias_gelu_gradient(saved[0], exists(bias) ? bias : at::Tensor(), gradients[0],
                                                 context->saved_data["by tanh"].toBool());
    if (exists(bias) && bias.requires_grad()) gpu_column_sums(dx, bias.grad());
    return {dx, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor product(const Params& params, const Affine& of, const at::Tensor& x) {
  const at::Tensor& half = params.half(of.weight);
  return CohortProduct::apply(x, params[of.weight], of.bias.exists() ? params[of.bias] : none(),
                              half.defined() ? half : none(), of.transposed, target_of(params, of.weight, 1));
}

at::Tensor joined_product(const Params& params, const Affine& first, const at::Tensor& x) {
  const at::Tensor &weight = params.joined(first.weight), &bias = params.joined(first.bias);
  if (!weight.defined() || !bias.defined() || first.transposed) return {};
  const at::Tensor& half = params.half_joined(first.weight);
  const auto count = static_cast<int>(weight.size(-2) / params.layout()[first.weight].shape[0]);
  return CohortProduct::apply(x, weight, bias, half.defined() ? half : none(), false,
                              target_of(params, first.weight, count));
}

at::Tensor gelu_product(const Params& params, const Affine& of, const at::Tensor& x, bool by_tanh) {
  if (!gpu_rows_can(x) || params.layout()[of.weight].shape[of.transposed ? 1 : 0] % 4 != 0) {
    return gelu(product(params, of, x), by_tanh);
  }
  const at::Tensor y = product(params, {of.weight, {}, of.transposed}, x);
  return BiasGelu::apply(y, of.bias.exists() ? params[of.bias] : none(), by_tanh);
}

}  // namespace chorus
