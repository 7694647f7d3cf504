#include "application/models/ops/norm_gpu.h"

#include "application/models/ops/gpu_arguments.h"
#include "application/models/ops/norm_args.h"
#include "core/base/error.h"

namespace chorus::kernels {
extern const KernelSource norm_gpu;
}  // namespace chorus::kernels

namespace chorus::inline ops {
namespace {

const KernelFamily kNormKernels{kernels::norm_gpu,
                                {element_option("F_ELEMENT"),
                                 element_option("X_ELEMENT"),
                                 element_option("Y_ELEMENT"),
                                 {"G", {"1", "2", "4", "6", "8", "16"}}}};
const GpuKernel<ResidualNormArgs> kResidualNorm{kNormKernels, "residual_norm"};
const GpuKernel<ResidualNormGradientArgs> kResidualNormGradient{kNormKernels, "residual_norm_gradient"};

constexpr std::int64_t kNormRows = 8;    // per block, one per warp
constexpr std::int64_t kBlockRows = 32;  // per block of the backward pass

void* data_or_null(const at::Tensor& tensor) { return tensor.defined() ? tensor.data_ptr() : nullptr; }

}  // namespace

std::int64_t norm_gpu_groups(std::int64_t width) {
  for (const std::int64_t groups : {1, 2, 4, 6, 8, 16}) {
    if (width <= 128 * groups) return groups;
  }
  throw InternalError("a row is too wide for the norm kernel");
}

bool norm_gpu_fits(const at::Tensor& f) { return gpu_rows_fit(f) && f.size(-1) % 4 == 0 && f.size(-1) <= kWidestNorm; }

NormGpu residual_norm_gpu(const NormInputGpu& input, at::ScalarType type) {
  const at::Tensor f = input.f.contiguous(), x = input.x.defined() ? input.x.contiguous() : at::Tensor();
  const std::int64_t all = f.size(0) * f.size(1), width = f.size(2);
  const auto options = f.options().dtype(type);
  NormGpu result{torch::empty(f.sizes(), options), {}, {}};
  if (input.differentiable) {
    result.normal = torch::empty(f.sizes(), options);
    result.inverse = torch::empty({all}, f.options().dtype(at::kFloat));
  }
  const AlignedRow weight(input.weight), bias(input.bias), f_bias(input.f_bias);
  kResidualNorm.launch({.blocks = (all + kNormRows - 1) / kNormRows, .threads = kGpuThreads},
                       {.f = f.data_ptr(),
                        .x = data_or_null(x),
                        .f_bias = f_bias.row(),
                        .weight = weight.row(),
                        .bias = bias.row(),
                        .normal = data_or_null(result.normal),
                        .y = result.y.data_ptr(),
                        .inverse = static_cast<float*>(data_or_null(result.inverse)),
                        .mask = mask_args(input.site),
                        .rows = static_cast<u32>(f.size(1)),
                        .width = static_cast<u32>(width),
                        .total = static_cast<u32>(all),
                        .epsilon = static_cast<float>(input.epsilon)},
                       {gpu_element(f.scalar_type()), gpu_element((x.defined() ? x : f).scalar_type()),
                        gpu_element(type), norm_gpu_groups(width)});
  return result;
}

NormGradientGpu residual_norm_gradient_gpu(const at::Tensor& dy, const NormGpu& forward, const at::Tensor& weight,
                                           const Dropout::Site& site, const NormWishGpu& wish) {
  const at::ScalarType type = forward.normal.scalar_type();
  const at::Tensor up = dy.to(type).contiguous();
  const std::int64_t clients = dy.size(0), rows = dy.size(1), width = dy.size(2);
  const std::int64_t blocks = (rows + kBlockRows - 1) / kBlockRows;
  const auto made = [&](const std::optional<at::ScalarType>& of) {
    return of ? torch::empty(dy.sizes(), up.options().dtype(*of)) : at::Tensor();
  };
  NormGradientGpu result{made(wish.f), made(wish.x), {}};
  // Without dropout, both gradients are the same.
  const bool same = site.threshold == 0 && wish.f && wish.f == wish.x;
  if (same) result.dx = result.df;
  if (wish.sums) result.sums = torch::empty({3, clients, blocks, width}, up.options().dtype(at::kFloat));
  const AlignedRow weights(weight);
  const std::int64_t groups = norm_gpu_groups(width);
  kResidualNormGradient.launch(
      {.blocks = blocks, .threads = static_cast<int>(32 * groups), .rows = clients},
      {.dy = up.data_ptr(),
       .normal = forward.normal.data_ptr(),
       .inverse = forward.inverse.data_ptr<float>(),
       .weight = weights.row(),
       .df = data_or_null(result.df),
       .dx = same ? nullptr : data_or_null(result.dx),
       .sums = wish.sums ? result.sums.data_ptr<float>() : nullptr,
       .mask = mask_args(site),
       .clients = static_cast<u32>(clients),
       .rows = static_cast<u32>(rows),
       .width = static_cast<u32>(width),
       .block_rows = static_cast<u32>(kBlockRows)},
      {gpu_element(wish.f.value_or(type)), gpu_element(wish.x.value_or(type)), gpu_element(type), groups});
  return result;
}

}  // namespace chorus::inline ops
