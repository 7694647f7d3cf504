#include "application/models/ops/product.h"

#include <ATen/Parallel.h>
#include <torch/autograd.h>
#include <torch/version.h>

#include <algorithm>

#include "application/models/ops/gpu_rows.h"
#include "application/models/ops/gradient_target.h"
#include "application/models/ops/layers.h"
#include "application/models/ops/matrix_product.h"
#include "application/models/ops/row_kernels.h"
#include "core/base/error.h"
#include "core/device/kernels.h"
#include "core/tensor/bfloat16.h"

// baddbmm of bfloat16 that adds to float32, on a GPU
#define CHORUS_WIDE_SUMS (TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 8))

namespace chorus {
namespace {

at::Tensor none() { return torch::empty({0}); }
bool exists(const at::Tensor& x) { return x.numel() > 0; }

// Whether the library that multiplies can be called itself.
bool directly(const at::Tensor& x, const at::Tensor& w) {
  if (!fast_kernels() || !x.is_cpu() || w.stride(-1) != 1 || x.scalar_type() != w.scalar_type()) return false;
  return x.scalar_type() == at::kFloat ? MatrixProduct::possible() : MatrixProduct::halves_possible();
}

// For LibTorch's products, which would round sums of bfloat16 in this machine's memory: the same numbers as float32.
at::Tensor widened(const at::Tensor& x) { return x.is_cpu() ? x.to(at::kFloat) : x; }

at::TensorOptions widened_options(const at::Tensor& x) {
  return x.is_cpu() ? x.options().dtype(at::kFloat) : x.options();
}

// y [C, T, out] = x [C, T, in] times w [C, out, in] or [out, in], turned, or [C, in, out] or [in, out]; or += it.
void put_times(const at::Tensor& y, const at::Tensor& x, const at::Tensor& w, bool turned, bool add) {
  const std::int64_t clients = w.dim() == 3 ? w.size(0) : 1, rows = x.size(0) * x.size(1) / clients;
  const std::int64_t in = x.size(2), out = y.size(2), apart = clients == 1 ? 0 : w.stride(0);
  const MatrixProduct product{.m = rows, .n = out, .k = in, .turn_b = turned, .add = add};
  for (std::int64_t c = 0; c < clients; ++c) {
    product({x, c * rows * in, in}, {w, c * apart, w.stride(-2)}, y.data_ptr<float>() + c * rows * out, out);
  }
}

// The same with LibTorch's operators; w is turned by its strides here.
at::Tensor times_by_torch(const at::Tensor& factor, const at::Tensor& weight) {
  const at::Tensor x = widened(factor), w = widened(weight);
  if (w.dim() == 3 && w.size(0) > 1) return torch::bmm(x, w);
  return torch::mm(x.reshape({-1, x.size(2)}), w.dim() == 3 ? w.squeeze(0) : w).view({x.size(0), x.size(1), -1});
}

at::Tensor times(const at::Tensor& x, const at::Tensor& w, bool turned) {
  if (!directly(x, w)) return times_by_torch(x, turned ? w.transpose(-1, -2) : w);
  const at::Tensor y = torch::empty({x.size(0), x.size(1), w.size(turned ? -2 : -1)}, x.options().dtype(at::kFloat));
  put_times(y, x.contiguous(), w, turned, false);
  return y;
}

// b [C, out] or [out] in each of so many rows: [C, rows, out]
at::Tensor in_rows(const at::Tensor& b, std::int64_t clients, std::int64_t rows) {
  const std::int64_t width = b.size(-1), apart = b.dim() == 2 ? b.stride(0) : 0;
  const at::Tensor y = torch::empty({clients, rows, width}, b.options().requires_grad(false));
  at::parallel_for(0, clients * rows, std::max<std::int64_t>(1, 16384 / width),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t r = begin; r < end; ++r) {
                       std::copy_n(b.data_ptr<float>() + r / rows * apart, width, y.data_ptr<float>() + r * width);
                     }
                   });
  return y;
}

// times(x, w) + b, b [C, out] or [out]
at::Tensor times_plus(const at::Tensor& b, const at::Tensor& x, const at::Tensor& w, bool turned) {
  if (directly(x, w)) {
    const at::Tensor y = in_rows(b, x.size(0), x.size(1));
    put_times(y, x.contiguous(), w, turned, true);
    return y;
  }
  at::Tensor y = times(x, w, turned);
  if (!gpu_rows_can(y) || y.size(2) % 4 != 0) return y.add_(b.dim() == 2 ? b.unsqueeze(1) : b);
  gpu_add_bias(y, b);
  return y;
}

// sum [C, m, n] = a^T b, or += it, for a [C, T, m] and b [C, T, n]
void put_product(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b, bool add) {
  if (directly(a, b) && sum.stride(-1) == 1 && a.is_contiguous() && b.is_contiguous()) {
    const std::int64_t tokens = a.size(1), m = a.size(2), n = b.size(2);
    const MatrixProduct product{.m = m, .n = n, .k = tokens, .turn_a = true, .add = add};
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

// A thread's columns of a client's rows x [C, T, n], in this machine's memory: work(client, where they begin in a row,
// how many they are).
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

// sum [C, n] += the rows of x [C, T, n]
void add_rows(const at::Tensor& sum, const at::Tensor& x) {
  if (gpu_rows_can(x)) {
    gpu_column_sums(x, sum);
  } else if (fast_kernels() && x.is_cpu() && x.scalar_type() == at::kFloat && x.is_contiguous()) {
    add_columns(sum, x);
  } else {
    sum.add_(x.sum(1));
  }
}

class CohortProduct : public torch::autograd::Function<CohortProduct> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, const at::Tensor& half, bool transposed,
                            const c10::intrusive_ptr<GradientTarget>& target) {
    const at::Tensor& stored = exists(half) ? half : weight;
    const at::Tensor in = exists(half) ? as_bfloat16(x) : x.to(stored.scalar_type());
    context->save_for_backward({in, weight, bias, half});
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

// gelu(x + b) in this machine's memory; the slopes take x's place.
class BiasGeluRows : public torch::autograd::Function<BiasGeluRows> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& bias,
                            bool by_tanh) {
    check(x.is_contiguous(), "a product lies end to end");
    const bool slopes = x.requires_grad();
    at::Tensor y = torch::empty_like(x);
    const std::int64_t rows = x.size(1), width = x.size(2), apart = bias.dim() == 2 ? bias.stride(0) : 0;
    at::parallel_for(0, x.size(0) * rows, std::max<std::int64_t>(1, 16384 / width),
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t r = begin; r < end; ++r) {
                         float *in = x.data_ptr<float>() + r * width, *out = y.data_ptr<float>() + r * width;
                         if (exists(bias)) add_row(in, bias.data_ptr<float>() + r / rows * apart, width);
                         slopes ? gelu_slope_row(in, out, in, width, by_tanh) : gelu_row(in, out, width, by_tanh);
                       }
                     });
    context->save_for_backward({x, bias});
    return y;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    // The slopes become the gradients; once, for a graph is gone through once.
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
                                                 context->saved_data["by tanh"].toBool(),
                                                 bias.requires_grad() ? bias.grad() : at::Tensor());
    return {dx, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor product(const Params& params, const Affine& of, const at::Tensor& x) {
  const at::Tensor& half = params.shadow()[of.weight];
  return CohortProduct::apply(x, params[of.weight], of.bias.exists() ? params[of.bias] : none(),
                              half.defined() ? half : none(), of.transposed, gradient_target(params, of.weight, 1));
}

at::Tensor joined_product(const Params& params, const Affine& first, const at::Tensor& x) {
  const at::Tensor &weight = params.joined(first.weight), &bias = params.joined(first.bias);
  if (!weight.defined() || !bias.defined() || first.transposed) return {};
  const at::Tensor& half = params.shadow().joined(first.weight);
  const auto count = static_cast<int>(weight.size(-2) / params.layout()[first.weight].shape[0]);
  return CohortProduct::apply(x, weight, bias, half.defined() ? half : none(), false,
                              gradient_target(params, first.weight, count));
}

at::Tensor gelu_product(const Params& params, const Affine& of, const at::Tensor& x, bool by_tanh) {
  const bool here = fast_kernels() && x.is_cpu();
  if (!here && (!gpu_rows_can(x) || params.layout()[of.weight].shape[of.transposed ? 1 : 0] % 4 != 0)) {
    return gelu(product(params, of, x), by_tanh);
  }
  const at::Tensor y = product(params, {of.weight, {}, of.transposed}, x);
  const at::Tensor bias = of.bias.exists() ? params[of.bias] : none();
  return here ? BiasGeluRows::apply(y, bias, by_tanh) : BiasGelu::apply(y, bias, by_tanh);
}

}  // namespace chorus
