#include "application/trainer/gpu_values.h"

#include <torch/types.h>

#include <algorithm>

#include "application/trainer/gpu_values_args.h"
#include "core/device/gpu_kernel.h"

namespace chorus::kernels {
extern const KernelSource gpu_values;
}  // namespace chorus::kernels

namespace chorus::inline trainer {
namespace {

const KernelFamily kValueKernels{kernels::gpu_values};
const GpuKernel<BeginValuesArgs> kBeginValues{kValueKernels, "begin_values"};
const GpuKernel<ChangesArgs> kChanges{kValueKernels, "changes"};

std::int64_t stride_of(const at::Tensor& start) { return start.dim() == 1 ? 0 : start.stride(0); }

// Number of clients that share a start; and a grid for all of them, four groups of four elements per thread.
int sharing(const at::Tensor& start, std::int64_t clients) { return start.dim() == 1 ? static_cast<int>(clients) : 1; }
GpuGrid grid_for(std::int64_t count, std::int64_t clients, int together) {
  constexpr std::int64_t kThreads = 256, kOfThread = 16;
  return {std::max<std::int64_t>(1, (count + kThreads * kOfThread - 1) / (kThreads * kOfThread)), kThreads,
          clients / together};
}

const std::int64_t* numbers_of(const at::Tensor& places) {
  return places.defined() ? places.data_ptr<std::int64_t>() : nullptr;
}

std::int64_t width_of(const at::Tensor& places) { return places.defined() ? places.size(1) : 0; }

TableArgs table_args(const WordPlaces& words) {
  return {.begin = words.begin,
          .size = words.size,
          .width = words.width,
          .rows = numbers_of(words.rows),
          .used = width_of(words.rows)};
}

}  // namespace

void gpu_begin_values(const at::Tensor& values, const at::Tensor& shadow, const at::Tensor& start,
                      const WordPlaces& words) {
  const int together = sharing(start, values.size(0));
  kBeginValues.launch(grid_for(values.size(1), values.size(0), together),
                      {.values = values.data_ptr<float>(),
                       .shadow = shadow.defined() ? static_cast<u16*>(shadow.data_ptr()) : nullptr,
                       .start = start.data_ptr<float>(),
                       .values_stride = values.stride(0),
                       .shadow_stride = shadow.defined() ? shadow.stride(0) : 0,
                       .start_stride = stride_of(start),
                       .table = table_args(words),
                       .count = values.size(1),
                       .clients = together});
}

Changes gpu_changes(const at::Tensor& values, const at::Tensor& start, const WordPlaces& words) {
  const std::int64_t clients = values.size(0), count = start.size(-1), stride = (count + 15) / 16 * 16;
  Changes result{torch::empty({clients, stride}, values.options()).narrow(1, 0, count),
                 torch::zeros({clients}, values.options().dtype(at::kInt))};
  const int together = sharing(start, clients);
  kChanges.launch(grid_for(count, clients, together), {.out = result.numbers.data_ptr<float>(),
                                                       .values = values.data_ptr<float>(),
                                                       .start = start.data_ptr<float>(),
                                                       .out_stride = stride,
                                                       .values_stride = values.stride(0),
                                                       .start_stride = stride_of(start),
                                                       .table = table_args(words),
                                                       .names = numbers_of(words.names),
                                                       .vocabulary = width_of(words.names),
                                                       .count = count,
                                                       .faulty = result.faulty.data_ptr<std::int32_t>(),
                                                       .clients = together});
  return result;
}

}  // namespace chorus::inline trainer
