#include "application/models/ops/residual.h"

#include <ATen/Parallel.h>
#include <torch/autograd.h>

#include "application/models/ops/gpu_norm.h"
#include "application/models/ops/gpu_rows.h"
#include "application/models/ops/row_kernels.h"
#include "core/device/kernels.h"

namespace chorus {
namespace {

// Rows that one thread takes at a time; their gradients of weight and bias are summed on their own, so that the sum
// does not depend on the number of threads.
constexpr std::int64_t kBlock = 64;

// A parameter [H] of all, or [C, H].
struct PerClient {
  explicit PerClient(const at::Tensor& tensor)
      : data(tensor.data_ptr<float>()), stride(tensor.dim() == 2 ? tensor.stride(0) : 0) {}
  const float* of(std::int64_t client) const { return data + client * stride; }
  const float* data;
  std::int64_t stride;
};

// What ResidualNorm, SumThenNorm and CohortNorm share; the last has no x.
struct NormRows {
  // `type`: of the result on a GPU. `f_bias` is empty on a CPU. `sum` is written to if defined, on a CPU alone.
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& f, const at::Tensor& f_bias,
                            const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            const Dropout::Site& site, double epsilon, at::ScalarType type,
                            const at::Tensor& sum = {}) {
    site.save(*context);
    context->saved_data["f"] = f.requires_grad();
    context->saved_data["x"] = x.defined() && x.requires_grad();
    context->saved_data["type f"] = f.scalar_type();
    context->saved_data["type x"] = (x.defined() ? x : f).scalar_type();
    if (!f.is_cpu()) {
      const GpuNorm result =
          gpu_residual_norm({f, f_bias.numel() > 0 ? f_bias : at::Tensor(), x, weight, bias, site, epsilon}, type);
      context->save_for_backward({result.normal, result.inverse, weight, bias, f_bias});
      return result.y;
    }
    const at::Tensor part = f.contiguous(), rest = x.defined() ? x.contiguous() : at::Tensor();
    const float* others = rest.defined() ? rest.data_ptr<float>() : nullptr;
    const std::int64_t clients = f.size(0), rows = f.size(1), width = f.size(2);
    at::Tensor normal = torch::empty_like(part), y = torch::empty_like(part);
    at::Tensor inverse = torch::empty({clients * rows}, f.options());
    const PerClient weights(weight), biases(bias);
    at::parallel_for(
        0, clients * rows, std::max<std::int64_t>(1, 16384 / width), [&](std::int64_t begin, std::int64_t end) {
          std::vector<float> scratch(static_cast<std::size_t>(width));
          for (std::int64_t r = begin; r < end; ++r) {
            const std::int64_t c = r / rows, at = r * width;
            const NormRow row{part.data_ptr<float>() + at,
                              others == nullptr ? nullptr : others + at,
                              weights.of(c),
                              biases.of(c),
                              normal.data_ptr<float>() + at,
                              y.data_ptr<float>() + at,
                              sum.defined() ? sum.data_ptr<float>() + at : nullptr};
            const MaskRow mask = site.row(static_cast<std::size_t>(c), Dropout::Site::hidden_start(r % rows, width));
            inverse.data_ptr<float>()[r] = residual_norm_row(row, mask, width, epsilon, scratch.data());
          }
        });
    context->save_for_backward({normal, inverse, weight, bias, f_bias});
    return y;
  }

  // The gradients of f and x; those of the parameters are added where they belong. `sum_gradient` may be undefined.
  static std::pair<at::Tensor, at::Tensor> backward(torch::autograd::AutogradContext* context,
                                                    const at::Tensor& gradient, const at::Tensor& sum_gradient = {}) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &normal = saved[0], &inverse = saved[1], &weight = saved[2], &bias = saved[3], &f_bias = saved[4];
    const Dropout::Site site = Dropout::Site::saved(*context);
    const bool wanted = weight.requires_grad() || f_bias.requires_grad();
    const at::NoGradGuard no_grad;
    if (!normal.is_cpu()) {
      GpuNormWish wish{.f = {}, .x = {}, .sums = wanted};
      if (context->saved_data["f"].toBool()) wish.f = context->saved_data["type f"].toScalarType();
      if (context->saved_data["x"].toBool()) wish.x = context->saved_data["type x"].toScalarType();
      const GpuNormGradient result =
          gpu_residual_norm_gradient(gradient, {.y = {}, .normal = normal, .inverse = inverse}, weight, site, wish);
      const auto sum_of = [](const at::Tensor& of, bool trains) { return trains ? of.grad() : at::Tensor(); };
      if (wanted) {
        gpu_fold_sums(result.sums, {sum_of(weight, weight.requires_grad()), sum_of(bias, weight.requires_grad()),
                                    sum_of(f_bias, f_bias.requires_grad())});
      }
      return {result.df, result.dx};
    }
    const at::Tensor dy = gradient.contiguous();
    const at::Tensor dsum = sum_gradient.defined() ? sum_gradient.contiguous() : at::Tensor();
    const std::int64_t clients = dy.size(0), rows = dy.size(1), width = dy.size(2);
    const std::int64_t blocks = (rows + kBlock - 1) / kBlock;
    at::Tensor dx = torch::empty_like(dy);
    at::Tensor df = site.keys.empty() ? dx : torch::empty_like(dy);
    at::Tensor sums = wanted ? torch::zeros({2, clients, blocks, width}, dy.options()) : at::Tensor();
    const PerClient weights(weight);
    at::parallel_for(0, clients * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> scratch(static_cast<std::size_t>(width));
      for (std::int64_t block = begin; block < end; ++block) {
        const std::int64_t c = block / blocks, first = block % blocks * kBlock;
        float* dweight = wanted ? sums.data_ptr<float>() + block * width : nullptr;
        float* dbias = wanted ? dweight + clients * blocks * width : nullptr;
        for (std::int64_t r = first; r < std::min(first + kBlock, rows); ++r) {
          const std::int64_t at = (c * rows + r) * width;
          const NormGradRow row{dy.data_ptr<float>() + at,
                                dsum.defined() ? dsum.data_ptr<float>() + at : nullptr,
                                normal.data_ptr<float>() + at,
                                weights.of(c),
                                inverse.data_ptr<float>()[c * rows + r],
                                dx.data_ptr<float>() + at,
                                df.data_ptr<float>() + at,
                                dweight,
                                dbias};
          const MaskRow mask = site.row(static_cast<std::size_t>(c), Dropout::Site::hidden_start(r, width));
          residual_norm_gradient_row(row, mask, width, scratch.data());
        }
      }
    });
    if (wanted) {
      const float* of_block = sums.data_ptr<float>();
      for (const at::Tensor& total : {weight.grad(), bias.grad()}) {
        for (std::int64_t block = 0; block < clients * blocks; ++block, of_block += width) {
          add_row(total.data_ptr<float>() + block / blocks * total.stride(0), of_block, width);
        }
      }
    }
    return {df, dx};
  }
};

class ResidualNorm : public torch::autograd::Function<ResidualNorm> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& f, const at::Tensor& f_bias,
                            const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            const Dropout::Site& site, double epsilon, at::ScalarType type) {
    return NormRows::forward(context, f, f_bias, x, weight, bias, site, epsilon, type);
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto [df, dx] = NormRows::backward(context, gradients[0]);
    torch::autograd::tensor_list result(8);
    result[0] = df;
    result[2] = dx;
    return result;
  }
};

class SumThenNorm : public torch::autograd::Function<SumThenNorm> {
 public:
  static torch::autograd::tensor_list forward(torch::autograd::AutogradContext* context, const at::Tensor& f,
                                              const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                                              const Dropout::Site& site, double epsilon) {
    const at::Tensor sum = torch::empty(f.sizes(), f.options());
    const at::Tensor y =
        NormRows::forward(context, f, torch::empty({0}), x, weight, bias, site, epsilon, at::kFloat, sum);
    return {sum, y};
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto [df, dx] = NormRows::backward(context, gradients[1], gradients[0]);
    torch::autograd::tensor_list result(6);
    result[0] = df;
    result[1] = dx;
    return result;
  }
};

class CohortNorm : public torch::autograd::Function<CohortNorm> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, double epsilon, at::ScalarType type) {
    return NormRows::forward(context, x, torch::empty({0}), {}, weight, bias, {}, epsilon, type);
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    torch::autograd::tensor_list result(5);
    result[0] = NormRows::backward(context, gradients[0]).first;
    return result;
  }
};

bool has_norm_kernels(const at::Tensor& x) {
  return fast_kernels() && (x.is_cpu() ? x.scalar_type() == at::kFloat : gpu_norm_can(x));
}

bool kernels_fit(const Params& params, const Norm& norm, const at::Tensor& x) {
  return norm.bias.exists() && has_norm_kernels(x) && params.trainable(norm.weight) == params.trainable(norm.bias);
}

at::ScalarType result_type(const Params& params) {
  return params.shadow().exists() && params.device().is_cuda() ? at::kBFloat16 : at::kFloat;
}

// norm(dropout(f + f_bias) + x), f_bias empty on a CPU.
at::Tensor fused(const Params& params, const Norm& norm, const at::Tensor& f, const at::Tensor& f_bias,
                 const at::Tensor& x, const Dropout::Site& site) {
  return ResidualNorm::apply(f, f_bias, x, params[norm.weight], params[norm.bias], site, norm.epsilon,
                             result_type(params));
}

}  // namespace

at::Tensor residual_norm(const Params& params, const Norm& norm, const at::Tensor& f, const at::Tensor& x,
                         Dropout& dropout, double probability) {
  if (!kernels_fit(params, norm, f) || !has_norm_kernels(x)) return norm(params, dropout.hidden(f, probability) + x);
  return fused(params, norm, f, torch::empty({0}), x, dropout.site(probability, f.device()));
}

SumAndNorm sum_then_norm(const Params& params, const Norm& norm, const at::Tensor& f, const at::Tensor& x,
                         Dropout& dropout, double probability) {
  if (!f.is_cpu() || !kernels_fit(params, norm, f) || !has_norm_kernels(x)) {
    const at::Tensor sum = x + dropout.hidden(f, probability);
    return {sum, norm(params, sum)};
  }
  const auto both = SumThenNorm::apply(f, x, params[norm.weight], params[norm.bias],
                                       dropout.site(probability, f.device()), norm.epsilon);
  return {both[0], both[1]};
}

at::Tensor cohort_norm(const Params& params, const Norm& norm, const at::Tensor& x) {
  if (!kernels_fit(params, norm, x)) return {};
  return CohortNorm::apply(x, params[norm.weight], params[norm.bias], norm.epsilon, result_type(params));
}

at::Tensor SublayerEnd::operator()(const Params& params, const Linear& linear, const at::Tensor& input,
                                   const at::Tensor& x, Dropout& masks) const {
  if (adapter.exists()) {
    Dropout none;
    const at::Tensor f = masks.hidden(linear(params, input), dropout);
    return residual_norm(params, norm, adapter(params, f, x, &norm), x, none, 0);
  }
  if (x.is_cpu() || !linear.bias.exists() || !kernels_fit(params, norm, x)) {
    return residual_norm(params, norm, linear(params, input), x, masks, dropout);
  }
  return fused(params, norm, linear.without_bias(params, input), params[linear.bias], x,
               masks.site(dropout, x.device()));
}

}  // namespace chorus
