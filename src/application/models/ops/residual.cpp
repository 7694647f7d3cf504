#include "application/models/ops/residual.h"

#include <ATen/Parallel.h>
#include <torch/autograd.h>

#include "application/models/ops/gpu_rows.h"
#include "application/models/ops/row_kernels.h"

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

// What ResidualNorm and CohortNorm share; the latter has no x.
struct NormRows {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& f, const at::Tensor& x,
                            const at::Tensor& weight, const at::Tensor& bias, const Dropout::Site& site,
                            double epsilon) {
    site.save(*context);
    context->saved_data["weights"] = weight.requires_grad() || bias.requires_grad();
    context->saved_data["type f"] = f.scalar_type();
    context->saved_data["type x"] = (x.defined() ? x : f).scalar_type();
    context->saved_data["sum"] = x.defined();
    if (!f.is_cpu()) {
      const GpuNorm result = gpu_residual_norm(f, x, weight, bias, site, epsilon);
      context->save_for_backward({result.normal, result.inverse, weight});
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
                              y.data_ptr<float>() + at};
            const MaskRow mask = site.row(static_cast<std::size_t>(c), Dropout::Site::hidden_start(r % rows, width));
            inverse.data_ptr<float>()[r] = residual_norm_row(row, mask, width, epsilon, scratch.data());
          }
        });
    context->save_for_backward({normal, inverse, weight});
    return y;
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &normal = saved[0], &inverse = saved[1], &weight = saved[2];
    const Dropout::Site site = Dropout::Site::saved(*context);
    const bool wanted = context->saved_data["weights"].toBool(), sum = context->saved_data["sum"].toBool();
    if (!normal.is_cpu()) {
      const GpuNormGradient result = gpu_residual_norm_gradient(
          gradients[0], {.y = {}, .normal = normal, .inverse = inverse}, weight, site, wanted,
          context->saved_data["type f"].toScalarType(), context->saved_data["type x"].toScalarType());
      return with_weights(result.df, sum ? result.dx : at::Tensor(), result.sums, weight);
    }
    const at::Tensor dy = gradients[0].contiguous();
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
    return with_weights(df, sum ? dx : at::Tensor(), sums, weight);
  }

  // sums [2, C, blocks, H] of weight and bias, or undefined
  static torch::autograd::tensor_list with_weights(const at::Tensor& df, const at::Tensor& dx, const at::Tensor& sums,
                                                   const at::Tensor& weight) {
    at::Tensor dweight, dbias;
    if (sums.defined()) {
      const at::Tensor totals = sums.sum(2);  // [2, C, H]
      dweight = weight.dim() == 2 ? totals[0] : totals[0].sum(0);
      dbias = weight.dim() == 2 ? totals[1] : totals[1].sum(0);
    }
    return {df, dx, dweight, dbias};
  }
};

class ResidualNorm : public torch::autograd::Function<ResidualNorm> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& f, const at::Tensor& x,
                            const at::Tensor& weight, const at::Tensor& bias, const Dropout::Site& site,
                            double epsilon) {
    return NormRows::forward(context, f, x, weight, bias, site, epsilon);
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    torch::autograd::tensor_list result = NormRows::backward(context, std::move(gradients));
    result.resize(6);
    return result;
  }
};

class CohortNorm : public torch::autograd::Function<CohortNorm> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, double epsilon) {
    return NormRows::forward(context, x, {}, weight, bias, {}, epsilon);
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto all = NormRows::backward(context, std::move(gradients));
    return {all[0], all[2], all[3], at::Tensor()};
  }
};

bool has_norm_kernels(const at::Tensor& x) { return x.is_cpu() ? x.scalar_type() == at::kFloat : gpu_rows_can(x); }

bool kernels_fit(const Params& params, const Norm& norm, const at::Tensor& x) {
  return norm.bias.exists() && has_norm_kernels(x) && params.trainable(norm.weight) == params.trainable(norm.bias);
}

}  // namespace

at::Tensor residual_norm(const Params& params, const Norm& norm, const at::Tensor& f, const at::Tensor& x,
                         Dropout& dropout, double probability) {
  if (!kernels_fit(params, norm, f) || !has_norm_kernels(x)) return norm(params, dropout.hidden(f, probability) + x);
  return ResidualNorm::apply(f, x, params[norm.weight], params[norm.bias], dropout.site(probability, f.device()),
                             norm.epsilon);
}

at::Tensor cohort_norm(const Params& params, const Norm& norm, const at::Tensor& x) {
  if (!kernels_fit(params, norm, x)) return {};
  return CohortNorm::apply(x, params[norm.weight], params[norm.bias], norm.epsilon);
}

at::Tensor SublayerEnd::operator()(const Params& params, const at::Tensor& f, const at::Tensor& x,
                                   Dropout& masks) const {
  if (!adapter.exists()) return residual_norm(params, norm, f, x, masks, dropout);
  Dropout none;
  return residual_norm(params, norm, adapter(params, masks.hidden(f, dropout), x, &norm), x, none, 0);
}

}  // namespace chorus
