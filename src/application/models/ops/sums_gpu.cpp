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

constexpr std::int64_t kFoldColumns = 32;  // per block
constexpr std::int64_t kSumColumns = 128, kSumRows = 256;

GradientRow gradient_row(const at::Tensor& gradient) {
  if (!gradient.defined()) return {nullptr, 0};
  return {gradient.data_ptr<float>(), gradient.stride(0)};
}

}  // namespace

void fold_sums_gpu(const at::Tensor& sums, const std::array<at::Tensor, 3>& gradients) {
  const std::int64_t clients = sums.size(1), width = sums.size(3);
  kFoldSums.launch(
      {.blocks = (width + kFoldColumns - 1) / kFoldColumns, .threads = kGpuThreads, .rows = sums.size(0) * clients},
      {.sums = sums.data_ptr<float>(),
       .gradients = {gradient_row(gradients[0]), gradient_row(gradients[1]), gradient_row(gradients[2])},
       .clients = static_cast<u32>(clients),
       .blocks = static_cast<u32>(sums.size(2)),
       .width = static_cast<u32>(width)},
      {gpu_element(at::kFloat)});
}

void column_sums_gpu(const at::Tensor& x, const at::Tensor& gradients) {
  const at::Tensor from = x.contiguous();
  const std::int64_t clients = from.size(0), rows = from.size(1), width = from.size(2);
  const std::int64_t chunks = (width + kSumColumns - 1) / kSumColumns, blocks = (rows + kSumRows - 1) / kSumRows;
  const at::Tensor sums = torch::empty({1, clients, blocks, width}, from.options().dtype(at::kFloat));
  kColumnSums.launch({.blocks = chunks * blocks, .threads = kGpuThreads, .rows = clients},
                     {.x = from.data_ptr(),
                      .sums = sums.data_ptr<float>(),
                      .rows = static_cast<u32>(rows),
                      .width = static_cast<u32>(width),
                      .chunks = static_cast<u32>(chunks),
                      .block_rows = static_cast<u32>(kSumRows)},
                     {gpu_element(from.scalar_type())});
  fold_sums_gpu(sums, {gradients});
}

}  // namespace chorus::inline ops
