#include "application/models/ops/product.h"

#include <ATen/Parallel.h>
#include <torch/autograd.h>
#include <torch/version.h>

#include <algorithm>

#include "application/models/ops/bias_gelu_gpu.h"
#include "application/models/ops/gpu_arguments.h"
#include "application/models/ops/gradient_target.h"
#include "application/models/ops/layers.h"
#include "application/models/ops/matrix_product.h"
#include "application/models/ops/row_kernels.h"
#include "application/models/ops/sums_gpu.h"
#include "core/base/error.h"
#include "core/device/backend.h"
#include "core/device/second_order.h"
#include "core/tensor/bfloat16.h"

// Since 2.8, LibTorch has bfloat16 matmuls that accumulate in float32 on a GPU.
#define CHORUS_WIDE_SUMS (TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 8))

namespace chorus::inline ops {
namespace {

at::Tensor none() { return torch::empty({0}); }
bool exists(const at::Tensor& x) { return x.numel() > 0; }

// Whether to call the matmul library directly.
bool directly(const at::Tensor& x, const at::Tensor& w) {
  const bool typed = x.scalar_type() == w.scalar_type() &&
                     (is_float(x) ? MatrixProduct::possible() : MatrixProduct::bfloat16_possible());
  return backend_for(x, {.cpu = typed && w.stride(-1) == 1}) == Backend::kCpu;
}

// The values as float32 on a CPU, where LibTorch's bfloat16 matmuls would round their sums.
at::Tensor widened(const at::Tensor& x) { return x.is_cpu() ? x.to(at::kFloat) : x; }

at::TensorOptions widened_options(const at::Tensor& x) {
  return x.is_cpu() ? x.options().dtype(at::kFloat) : x.options();
}

// y [C, T, out] = x w, or += if `add`, for x [C, T, in]. w is [C, out, in] or [out, in] if `transpose_w`, else
// [C, in, out] or [in, out].
void put_times(const at::Tensor& y, const at::Tensor& x, const at::Tensor& w, bool transpose_w, bool add) {
  const std::int64_t clients = w.dim() == 3 ? w.size(0) : 1, rows = x.size(0) * x.size(1) / clients;
  const std::int64_t in = x.size(2), out = y.size(2), client_stride = clients == 1 ? 0 : w.stride(0);
  const MatrixProduct product{.m = rows, .n = out, .k = in, .transpose_b = transpose_w, .add = add};
  for (std::int64_t c = 0; c < clients; ++c) {
    product({x, c * rows * in, in}, {w, c * client_stride, w.stride(-2)}, y.data_ptr<float>() + c * rows * out, out);
  }
}

// The same with LibTorch's operators. The caller has transposed w.
at::Tensor times_by_torch(const at::Tensor& factor, const at::Tensor& weight) {
  const at::Tensor x = widened(factor), w = widened(weight);
  if (w.dim() == 3 && w.size(0) > 1) return torch::bmm(x, w);
  return torch::mm(x.reshape({-1, x.size(2)}), w.dim() == 3 ? w.squeeze(0) : w).view({x.size(0), x.size(1), -1});
}

at::Tensor times(const at::Tensor& x, const at::Tensor& w, bool transpose_w) {
  if (!directly(x, w)) return times_by_torch(x, transpose_w ? w.transpose(-1, -2) : w);
  const at::Tensor y =
      torch::empty({x.size(0), x.size(1), w.size(transpose_w ? -2 : -1)}, x.options().dtype(at::kFloat));
  put_times(y, x.contiguous(), w, transpose_w, false);
  return y;
}

// Repeats b [C, out] or [out]: [C, rows, out]
at::Tensor in_rows(const at::Tensor& b, std::int64_t clients, std::int64_t rows) {
  const std::int64_t width = b.size(-1), client_stride = b.dim() == 2 ? b.stride(0) : 0;
  const at::Tensor y = torch::empty({clients, rows, width}, b.options().requires_grad(false));
  at::parallel_for(
      0, clients * rows, std::max<std::int64_t>(1, 16384 / width), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
          std::copy_n(b.data_ptr<float>() + r / rows * client_stride, width, y.data_ptr<float>() + r * width);
        }
      });
  return y;
}

// times(x, w) + b, b [C, out] or [out]
at::Tensor times_plus(const at::Tensor& b, const at::Tensor& x, const at::Tensor& w, bool transpose_w) {
  if (directly(x, w)) {
    const at::Tensor y = in_rows(b, x.size(0), x.size(1));
    put_times(y, x.contiguous(), w, transpose_w, true);
    return y;
  }
  if (x.is_cuda() && x.size(0) == 1) {  // the matmul adds the bias
    const at::Tensor matrix = w.dim() == 3 ? w.squeeze(0) : w,
                     row = (b.dim() == 2 ? b.squeeze(0) : b).to(x.scalar_type());
    return at::addmm(row, x.squeeze(0), transpose_w ? matrix.t() : matrix).unsqueeze(0);
  }
  at::Tensor y = times(x, w, transpose_w);
  if (backend_for(y, {.gpu = bias_gpu_fits(y)}) != Backend::kGpu) return y.add_(b.dim() == 2 ? b.unsqueeze(1) : b);
  add_bias_gpu(y, b);
  return y;
}

// sum [C, m, n] = a^T b, or += if `add`, for a [C, T, m] and b [C, T, n]
void put_product(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b, bool add) {
  if (directly(a, b) && sum.stride(-1) == 1 && a.is_contiguous() && b.is_contiguous()) {
    const std::int64_t tokens = a.size(1), m = a.size(2), n = b.size(2);
    const MatrixProduct product{.m = m, .n = n, .k = tokens, .transpose_a = true, .add = add};
    for (std::int64_t c = 0; c < a.size(0); ++c) {
      product({a, c * tokens * m, m}, {b, c * tokens * n, n}, sum.data_ptr<float>() + c * sum.stride(0), sum.stride(1));
    }
    return;
  }
  at::Tensor out = sum.size(0) == 1 ? sum.squeeze(0) : sum;
  const at::Tensor left = widened(sum.size(0) == 1 ? a.squeeze(0).t() : a.transpose(1, 2));
  const at::Tensor right = widened(sum.size(0) == 1 ? b.squeeze(0) : b);
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

// Calls work(client, first column, columns) for each thread's share of the columns of x [C, T, n], on a CPU.
template <typename Work>
void for_columns(const at::Tensor& x, const Work& work) {
  const std::int64_t threads = x.numel() < 65536 || at::in_parallel_region() ? 1 : at::get_num_threads();
  const std::int64_t width = x.size(2), columns = (width + threads - 1) / threads;
  at::parallel_for(0, x.size(0) * threads, x.numel() < 65536 ? x.size(0) : 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t piece = begin; piece < end; ++piece) {
                       const std::int64_t first = piece % threads * columns;
                       if (first < width) work(piece / threads, first, std::min(columns, width - first));
                     }
                   });
}

void add_columns(const at::Tensor& sum, const at::Tensor& x) {
  const std::int64_t rows = x.size(1), width = x.size(2);
  for_columns(x, [&](std::int64_t c, std::int64_t first, std::int64_t count) {
    float* to = sum.data_ptr<float>() + c * sum.stride(0) + first;
    const float* from = x.data_ptr<float>() + c * rows * width + first;
    for (std::int64_t r = 0; r < rows; ++r) add_row(to, from + r * width, count);
  });
}

// sum [C, n] += x summed over T, for x [C, T, n]
void add_rows(const at::Tensor& sum, const at::Tensor& x) {
  switch (backend_for(x, {.cpu = is_float(x) && x.is_contiguous(), .gpu = gpu_rows_fit(x)})) {
    case Backend::kCpu:
      return add_columns(sum, x);
    case Backend::kGpu:
      return column_sums_gpu(x, sum);
    case Backend::kReference:
      sum.add_(x.sum(1));
  }
}

class CohortProduct : public torch::autograd::Function<CohortProduct> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, const at::Tensor& shadow, bool transposed,
                            const c10::intrusive_ptr<GradientTarget>& target) {
    const at::Tensor& stored = exists(shadow) ? shadow : weight;
    const at::Tensor in = exists(shadow) ? as_bfloat16(x) : x.to(stored.scalar_type());
    context->save_for_backward({in, weight, bias, shadow});
    context->saved_data["transposed"] = transposed;
    GradientTarget::keep(*context, target);
    context->saved_data["x"] = x.requires_grad();
    context->saved_data["type"] = x.scalar_type();
    return exists(bias) ? times_plus(bias, in, stored, !transposed) : times(in, stored, !transposed);
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &in = saved[0], &weight = saved[1], &bias = saved[2];
    const at::Tensor& stored = exists(saved[3]) ? saved[3] : weight;
    const bool transposed = context->saved_data["transposed"].toBool();
    const at::NoGradGuard no_grad;
    const at::Tensor up = gradients[0].contiguous(), dy = exists(saved[3]) ? as_bfloat16(up) : up.to(in.scalar_type());
    const auto target = GradientTarget::kept(*context);
    const bool given = weight.requires_grad() && target && target->given();
    at::Tensor dw;
    if (weight.requires_grad()) {
      dw = given ? torch::empty(weight.sizes(), widened_options(dy)) : weight.grad();
      const bool add = !given && GradientTarget::take_kept(*context, dw);
      transposed ? put_product(dw, in, dy, add) : put_product(dw, dy, in, add);
    }
    if (exists(bias) && bias.requires_grad()) add_rows(bias.grad(), up);
    at::Tensor dx;
    if (context->saved_data["x"].toBool()) {
      dx = times(dy, stored, transposed).to(context->saved_data["type"].toScalarType());
    }
    if (given) target->give(dw);
    return {dx, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

// gelu(x + b) on a CPU. The derivatives replace x.
class BiasGeluCpu : public torch::autograd::Function<BiasGeluCpu> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& bias,
                            bool by_tanh) {
    check(x.is_contiguous(), "the result of a matmul is contiguous");
    const bool slopes = x.requires_grad();
    at::Tensor y = torch::empty_like(x);
    const std::int64_t rows = x.size(1), width = x.size(2), client_stride = bias.dim() == 2 ? bias.stride(0) : 0;
    at::parallel_for(0, x.size(0) * rows, std::max<std::int64_t>(1, 16384 / width),
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t r = begin; r < end; ++r) {
                         float *in = x.data_ptr<float>() + r * width, *out = y.data_ptr<float>() + r * width;
                         if (exists(bias)) add_row(in, bias.data_ptr<float>() + r / rows * client_stride, width);
                         slopes ? gelu_slope_row(in, out, in, width, by_tanh) : gelu_row(in, out, width, by_tanh);
                       }
                     });
    context->save_for_backward({x, bias});
    return y;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    // The slopes become the gradients in place, because a graph is used once.
    const at::Tensor &dx = saved[0], &bias = saved[1], up = gradients[0].contiguous();
    const at::Tensor sum = bias.requires_grad() ? bias.grad() : at::Tensor();
    const std::int64_t rows = dx.size(1), width = dx.size(2);
    for_columns(dx, [&](std::int64_t c, std::int64_t first, std::int64_t count) {
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t at = (c * rows + r) * width + first;
        float* to = dx.data_ptr<float>() + at;
        multiply_row(to, up.data_ptr<float>() + at, count);
        if (sum.defined()) add_row(sum.data_ptr<float>() + c * sum.stride(0) + first, to, count);
      }
    });
    return {dx, at::Tensor(), at::Tensor()};
  }
};

// The same on a GPU.
class BiasGeluGpu : public torch::autograd::Function<BiasGeluGpu> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& bias,
                            bool by_tanh) {
    const at::Tensor from = x.contiguous();
    context->save_for_backward({from, bias});
    context->saved_data["by tanh"] = by_tanh;
    return bias_gelu_gpu(from, exists(bias) ? bias : at::Tensor(), by_tanh);
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& bias = saved[1];
    const at::Tensor dx = bias_gelu_gradient_gpu(saved[0], exists(bias) ? bias : at::Tensor(), gradients[0],
                                                 context->saved_data["by tanh"].toBool(),
                                                 bias.requires_grad() ? bias.grad() : at::Tensor());
    return {dx, at::Tensor(), at::Tensor()};
  }
};

// The same as a composition of LibTorch's operators, in float32.
at::Tensor plain_product(const Params& params, const Affine& of, const at::Tensor& x) {
  const at::Tensor& weight = params[of.weight];
  const at::Tensor y = times_by_torch(x, of.transposed ? weight : weight.transpose(-1, -2));
  return of.bias.exists() ? y + over_tokens(params, of.bias) : y;
}

}  // namespace

at::Tensor product(const Params& params, const Affine& of, const at::Tensor& x) {
  if (SecondOrder::active()) return plain_product(params, of, x);
  const at::Tensor& shadow = params.shadow()[of.weight];
  return CohortProduct::apply(x, params[of.weight], of.bias.exists() ? params[of.bias] : none(),
                              shadow.defined() ? shadow : none(), of.transposed, gradient_target(params, of.weight, 1));
}

at::Tensor joined_product(const Params& params, const Affine& first, const at::Tensor& x) {
  const at::Tensor &weight = params.joined(first.weight), &bias = params.joined(first.bias);
  if (!weight.defined() || !bias.defined() || first.transposed || SecondOrder::active()) return {};
  const at::Tensor& shadow = params.shadow().joined(first.weight);
  const auto count = static_cast<int>(weight.size(-2) / params.layout()[first.weight].shape[0]);
  return CohortProduct::apply(x, weight, bias, shadow.defined() ? shadow : none(), false,
                              gradient_target(params, first.weight, count));
}

at::Tensor gelu_product(const Params& params, const Affine& of, const at::Tensor& x, bool by_tanh) {
  const std::int64_t out = params.layout()[of.weight].shape[of.transposed ? 1 : 0];
  const Backend backend = backend_for(x, {.cpu = true, .gpu = gpu_rows_fit(x) && out % 4 == 0});
  if (backend == Backend::kReference) return gelu(product(params, of, x), by_tanh);
  const at::Tensor y = product(params, {of.weight, {}, of.transposed}, x);
  const at::Tensor bias = of.bias.exists() ? params[of.bias] : none();
  if (backend == Backend::kCpu) return BiasGeluCpu::apply(y, bias, by_tanh);
  if (at::GradMode::is_enabled()) return BiasGeluGpu::apply(y, bias, by_tanh);
  add_bias_then_gelu_gpu(y, exists(bias) ? bias : at::Tensor(), by_tanh);
  return y;
}

}  // namespace chorus::inline ops
