#include "application/models/ops/cross_entropy_gpu.h"

#include <limits>

#include "application/models/ops/cross_entropy_args.h"
#include "application/models/ops/gpu_arguments.h"
#include "core/device/backend.h"

namespace chorus::kernels {
extern const KernelSource cross_entropy_gpu;
}  // namespace chorus::kernels

namespace chorus::inline ops {
namespace {

const KernelFamily kLossKernels{kernels::cross_entropy_gpu, {element_option("ELEMENT")}};
const GpuKernel<RowLossesArgs> kRowLosses{kLossKernels, "row_losses"};
const GpuKernel<MeanLossesArgs> kMeanLosses{kLossKernels, "mean_losses"};
const GpuKernel<LossGradientArgs> kLossGradient{kLossKernels, "loss_gradient"};

// A block per row of logits.
GpuGrid loss_grid(const at::Tensor& logits) {
  return {.blocks = logits.size(0) * logits.size(1), .threads = logits.size(2) > 64 ? kGpuThreads : 32};
}

}  // namespace

bool cross_entropy_gpu_fits(const at::Tensor& logits) {
  return logits.dim() == 3 && is_float_or_bfloat16(logits) &&
         logits.size(0) * logits.size(1) < std::numeric_limits<std::int32_t>::max();
}

CrossEntropyResult cross_entropy_gpu(const at::Tensor& logits, const at::Tensor& labels, std::int64_t ignored) {
  const std::int64_t clients = logits.size(0), rows = logits.size(1);
  const auto options = logits.options().dtype(at::kFloat);
  CrossEntropyResult result{torch::empty({clients}, options), torch::empty({clients * rows}, options),
                            torch::empty({clients}, options)};
  const at::Tensor losses = torch::empty({clients * rows}, options);
  kRowLosses.launch(loss_grid(logits),
                    {.logits = logits.data_ptr(),
                     .labels = labels.data_ptr<std::int64_t>(),
                     .logs = result.logs.data_ptr<float>(),
                     .losses = losses.data_ptr<float>(),
                     .ignored = ignored,
                     .width = static_cast<u32>(logits.size(2))},
                    {gpu_element(logits.scalar_type())});
  kMeanLosses.launch({.blocks = clients, .threads = kGpuThreads},
                     {.losses = losses.data_ptr<float>(),
                      .labels = labels.data_ptr<std::int64_t>(),
                      .loss = result.loss.data_ptr<float>(),
                      .counts = result.counts.data_ptr<float>(),
                      .ignored = ignored,
                      .rows = static_cast<u32>(rows)},
                     {gpu_element(logits.scalar_type())});
  return result;
}

at::Tensor cross_entropy_gradient_gpu(const at::Tensor& gradient, const at::Tensor& logits, const at::Tensor& labels,
                                      const CrossEntropyResult& forward, std::int64_t ignored) {
  const at::Tensor up = gradient.to(at::kFloat).contiguous();
  at::Tensor dlogits = torch::empty_like(logits);
  kLossGradient.launch(loss_grid(logits),
                       {.gradient = up.data_ptr<float>(),
                        .logits = logits.data_ptr(),
                        .labels = labels.data_ptr<std::int64_t>(),
                        .logs = forward.logs.data_ptr<float>(),
                        .counts = forward.counts.data_ptr<float>(),
                        .dlogits = dlogits.data_ptr(),
                        .ignored = ignored,
                        .rows = static_cast<u32>(logits.size(1)),
                        .width = static_cast<u32>(logits.size(2))},
                       {gpu_element(logits.scalar_type())});
  return dlogits;
}

}  // namespace chorus::inline ops
