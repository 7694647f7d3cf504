#include "application/models/ops/gpu_loss.h"

#include <fmt/format.h>

#include <limits>

#include "application/models/ops/gpu_source.h"

namespace chorus {
namespace {

// A block takes a row of logits; then one a client's rows.
constexpr const char* kLoss = R"(
__device__ inline float block_of(float x, bool largest) {
  __shared__ float parts[8];
  for (int d = 16; d > 0; d /= 2) {
    float other = __shfl_xor_sync(0xffffffffu, x, d);
    x = largest ? fmaxf(x, other) : x + other;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  x = parts[0];
  for (unsigned w = 1; w < blockDim.x / 32; ++w) x = largest ? fmaxf(x, parts[w]) : x + parts[w];
  return x;
}
extern "C" __global__ void row_losses(const T* x, const long long* labels, float* logs, float* losses, unsigned width,
                                      long long ignored) {
  u64 row = blockIdx.x, at = row * width;
  if (labels[row] == ignored) {
    if (threadIdx.x == 0) logs[row] = losses[row] = 0;
    return;
  }
  float top = -3e38f, sum = 0;
  for (unsigned k = threadIdx.x; k < width; k += blockDim.x) top = fmaxf(top, load(x, at + k));
  top = block_of(top, true);
  for (unsigned k = threadIdx.x; k < width; k += blockDim.x) sum += expf(load(x, at + k) - top);
  sum = block_of(sum, false);
  if (threadIdx.x != 0) return;
  logs[row] = top + logf(sum);
  losses[row] = logs[row] - load(x, at + labels[row]);
}
extern "C" __global__ void mean_losses(const float* losses, const long long* labels, float* loss, float* counts,
                                       unsigned rows, long long ignored) {
  u64 at = (u64)blockIdx.x * rows;
  float sum = 0, count = 0;
  for (unsigned r = threadIdx.x; r < rows; r += blockDim.x) {
    if (labels[at + r] == ignored) continue;
    sum += losses[at + r];
    count += 1;
  }
  sum = block_of(sum, false);
  count = fmaxf(block_of(count, false), 1);
  if (threadIdx.x != 0) return;
  loss[blockIdx.x] = sum / count;
  counts[blockIdx.x] = count;
}
extern "C" __global__ void loss_gradient(const float* gradient, const T* x, const long long* labels, const float* logs,
                                         const float* counts, T* dx, unsigned rows, unsigned width,
                                         long long ignored) {
  u64 row = blockIdx.x, at = row * width;
  unsigned client = row / rows;
  long long label = labels[row];
  float factor = label == ignored ? 0 : gradient[client] / counts[client];
  for (unsigned k = threadIdx.x; k < width; k += blockDim.x) {
    float share = label == ignored ? 0 : expf(load(x, at + k) - logs[row]) - (k == label ? 1 : 0);
    store(dx, at + k, share * factor);
  }
}
)";

const GpuKernel& loss_kernel(const char* name, at::ScalarType type) {
  return gpu_kernel_for(name, fmt::format("typedef {} T;\n", gpu_type(type)), kLoss);
}

int loss_threads(const at::Tensor& logits) { return logits.size(2) > 64 ? kGpuThreads : 32; }

}  // namespace

bool gpu_loss_can(const at::Tensor& logits) {
  return GpuKernel::works_on(logits) && logits.dim() == 3 &&
         (logits.scalar_type() == at::kFloat || logits.scalar_type() == at::kBFloat16) &&
         logits.size(0) * logits.size(1) < std::numeric_limits<std::int32_t>::max();
}

GpuLoss gpu_cross_entropy(const at::Tensor& logits, const at::Tensor& labels, std::int64_t ignored) {
  const std::int64_t clients = logits.size(0), rows = logits.size(1);
  const auto options = logits.options().dtype(at::kFloat);
  GpuLoss result{torch::empty({clients}, options), torch::empty({clients * rows}, options),
                 torch::empty({clients}, options)};
  const at::Tensor losses = torch::empty({clients * rows}, options);
  loss_kernel("row_losses", logits.scalar_type())
      .launch({clients * rows, loss_threads(logits)}, logits.data_ptr(), labels.data_ptr<std::int64_t>(),
              result.logs.data_ptr<float>(), losses.data_ptr<float>(), static_cast<unsigned>(logits.size(2)), ignored);
  loss_kernel("mean_losses", at::kFloat)
      .launch({clients, kGpuThreads}, losses.data_ptr<float>(), labels.data_ptr<std::int64_t>(),
              result.loss.data_ptr<float>(), result.counts.data_ptr<float>(), static_cast<unsigned>(rows), ignored);
  return result;
}

at::Tensor gpu_cross_entropy_gradient(const at::Tensor& gradient, const at::Tensor& logits, const at::Tensor& labels,
                                      const GpuLoss& forward, std::int64_t ignored) {
  const at::Tensor up = gradient.to(at::kFloat).contiguous();
  at::Tensor dx = torch::empty_like(logits);
  loss_kernel("loss_gradient", logits.scalar_type())
      .launch({logits.size(0) * logits.size(1), loss_threads(logits)}, up.data_ptr<float>(), logits.data_ptr(),
              labels.data_ptr<std::int64_t>(), forward.logs.data_ptr<float>(), forward.counts.data_ptr<float>(),
              dx.data_ptr(), static_cast<unsigned>(logits.size(1)), static_cast<unsigned>(logits.size(2)), ignored);
  return dx;
}

}  // namespace chorus
