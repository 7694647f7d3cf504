#include "application/models/ops/sums_gpu.h"

#include "application/models/ops/gpu_arguments.h"
#include "application/models/ops/sums_args.h"

namespace chorus::kernels {
extern const KernelSource sums_gpu;
}  // namespace chorus::kernels

namespace chorus::inline ops {
namespace {

const KernelFamily kSumKernels{kernels::sums_gpu, {element_option("ELEMENT")}};
const GpuKernel<FoldSumsArgs> kFoldSums{kSumKernels, "fold_sums"};
const GpuKernel<ColumnSumsArgs> kColumnSums{kSumKernels, "column_sums"};

GradientRow gradient_row(const at::Tensor& gradient) {
  if (!gradient.defined()) return {nullptr, 0};
  return {gradient.data_ptr<float>(), gradient.stride(0)};
}

}  // namespace

void fold_sums_gpu(const at::Tensor& sums, const std::array<at::Tensor, 3>& gradients) {
  const std::int64_t clients = sums.size(1), width = sums.size(3);
  kFoldSums.launch(
      {.blocks = (width + kGpuThreads - 1) / kGpuThreads, .threads = kGpuThreads, .rows = sums.size(0) * clients},
      {.sums = sums.data_ptr<float>(),
       .gradients = {gradient_row(gradients[0]), gradient_row(gradients[1]), gradient_row(gradients[2])},
       .clients = static_cast<u32>(clients),
       .blocks = static_cast<u32>(sums.size(2)),
       .width = static_cast<u32>(width)},
      {gpu_element(at::kFloat)});
}

void column_sums_gpu(const at::Tensor& x, const at::Tensor& gradients) {
  constexpr int kThreads = 512;
  constexpr std::int64_t kColumns = 64;  // per block
  const at::Tensor from = x.contiguous();
  kColumnSums.launch({.blocks = (from.size(2) + kColumns - 1) / kColumns, .threads = kThreads, .rows = from.size(0)},
                     {.x = from.data_ptr(),
                      .gradient = gradient_row(gradients),
                      .rows = static_cast<u32>(from.size(1)),
                      .width = static_cast<u32>(from.size(2))},
                     {gpu_element(from.scalar_type())});
}

}  // namespace chorus::inline ops
