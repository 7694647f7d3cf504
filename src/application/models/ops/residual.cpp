#include "application/models/ops/residual.h"

#include <torch/autograd.h>

#include "application/models/ops/norm_cpu.h"
#include "application/models/ops/norm_gpu.h"
#include "application/models/ops/sums_gpu.h"
#include "core/device/backend.h"

namespace chorus::inline ops {
namespace {

// Shared by ResidualNorm, SumThenNorm and CohortNorm; the last has no x.
struct NormRows {
  // `type`: of the result on a GPU. `f_bias` is empty on a CPU. `sum` is written if defined, only on a CPU.
  // `differentiable`: false promises that there will be no backward pass.
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& f, const at::Tensor& f_bias,
                            const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            const Dropout::Site& site, double epsilon, at::ScalarType type, bool differentiable,
                            const at::Tensor& sum = {}) {
    site.save(*context);
    context->saved_data["f"] = f.requires_grad();
    context->saved_data["x"] = x.defined() && x.requires_grad();
    context->saved_data["type f"] = f.scalar_type();
    context->saved_data["type x"] = (x.defined() ? x : f).scalar_type();
    if (!f.is_cpu()) {
      const NormGpu result = residual_norm_gpu(
          {f, f_bias.numel() > 0 ? f_bias : at::Tensor(), x, weight, bias, site, epsilon, differentiable}, type);
      context->save_for_backward({result.normal, result.inverse, weight, bias, f_bias});
      return result.y;
    }
    const NormCpu result = residual_norm_cpu({f, x, weight, bias, site, epsilon, sum});
    context->save_for_backward({result.normal, result.inverse, weight, bias, f_bias});
    return result.y;
  }

  // Returns the gradients of f and x; adds those of the parameters. `sum_gradient` may be undefined.
  static std::pair<at::Tensor, at::Tensor> backward(torch::autograd::AutogradContext* context,
                                                    const at::Tensor& gradient, const at::Tensor& sum_gradient = {}) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &normal = saved[0], &inverse = saved[1], &weight = saved[2], &bias = saved[3], &f_bias = saved[4];
    const Dropout::Site site = Dropout::Site::saved(*context);
    const bool wanted = weight.requires_grad() || f_bias.requires_grad();
    const at::NoGradGuard no_grad;
    if (!normal.is_cpu()) {
      NormWishGpu wish{.f = {}, .x = {}, .sums = wanted};
      if (context->saved_data["f"].toBool()) wish.f = context->saved_data["type f"].toScalarType();
      if (context->saved_data["x"].toBool()) wish.x = context->saved_data["type x"].toScalarType();
      const NormGradientGpu result =
          residual_norm_gradient_gpu(gradient, {.y = {}, .normal = normal, .inverse = inverse}, weight, site, wish);
      const auto sum_of = [](const at::Tensor& of, bool trains) { return trains ? of.grad() : at::Tensor(); };
      if (wanted) {
        fold_sums_gpu(result.sums, {sum_of(weight, weight.requires_grad()), sum_of(bias, weight.requires_grad()),
                                    sum_of(f_bias, f_bias.requires_grad())});
      }
      return {result.df, result.dx};
    }
    const NormGradientCpu result =
        residual_norm_gradient_cpu(gradient, sum_gradient, {.y = {}, .normal = normal, .inverse = inverse}, weight,
                                   site, wanted ? weight.grad() : at::Tensor(), wanted ? bias.grad() : at::Tensor());
    return {result.df, result.dx};
  }
};

class ResidualNorm : public torch::autograd::Function<ResidualNorm> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& f, const at::Tensor& f_bias,
                            const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            const Dropout::Site& site, double epsilon, at::ScalarType type, bool differentiable) {
    return NormRows::forward(context, f, f_bias, x, weight, bias, site, epsilon, type, differentiable);
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto [df, dx] = NormRows::backward(context, gradients[0]);
    torch::autograd::tensor_list result(9);
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
        NormRows::forward(context, f, torch::empty({0}), x, weight, bias, site, epsilon, at::kFloat, true, sum);
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
                            const at::Tensor& bias, double epsilon, at::ScalarType type, bool differentiable) {
    return NormRows::forward(context, x, torch::empty({0}), {}, weight, bias, {}, epsilon, type, differentiable);
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    torch::autograd::tensor_list result(6);
    result[0] = NormRows::backward(context, gradients[0]).first;
    return result;
  }
};

bool has_norm_kernels(const at::Tensor& x) {
  return backend_for(x, {.cpu = is_float(x), .gpu = norm_gpu_fits(x)}) != Backend::kReference;
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
                             result_type(params), at::GradMode::is_enabled());
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
  return CohortNorm::apply(x, params[norm.weight], params[norm.bias], norm.epsilon, result_type(params),
                           at::GradMode::is_enabled());
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

}  // namespace chorus::inline ops
