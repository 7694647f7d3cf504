#include "application/models/ops/cross_entropy_args.h"
#include "core/device/kernel_prelude.cuh"

// Options: ELEMENT. A block of at most 256 threads takes a row of logits, or the rows of a client.

typedef ELEMENT T;

// The sum or the maximum over a block.
__device__ inline float block_of(float x, bool largest) {
  __shared__ float parts[8];
  x = largest ? warp_max(x) : warp_sum(x);
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  x = parts[0];
  for (u32 w = 1; w < blockDim.x / 32; ++w) x = largest ? fmaxf(x, parts[w]) : x + parts[w];
  return x;
}

extern "C" __global__ void row_losses(RowLossesArgs a) {
  u64 row = blockIdx.x, at = row * a.width;
  const T* x = (const T*)a.logits;
  if (a.labels[row] == a.ignored) {
    if (threadIdx.x == 0) a.logs[row] = a.losses[row] = 0;
    return;
  }
  float top = -3e38f, sum = 0;
  for (u32 k = threadIdx.x; k < a.width; k += blockDim.x) top = fmaxf(top, load(x, at + k));
  top = block_of(top, true);
  for (u32 k = threadIdx.x; k < a.width; k += blockDim.x) sum += expf(load(x, at + k) - top);
  sum = block_of(sum, false);
  if (threadIdx.x != 0) return;
  float log = top + logf(sum);
  a.logs[row] = log;
  a.losses[row] = log - load(x, at + a.labels[row]);
}

extern "C" __global__ void mean_losses(MeanLossesArgs a) {
  u64 at = (u64)blockIdx.x * a.rows;
  float sum = 0, count = 0;
  for (u32 r = threadIdx.x; r < a.rows; r += blockDim.x) {
    if (a.labels[at + r] == a.ignored) continue;
    sum += a.losses[at + r];
    count += 1;
  }
  sum = block_of(sum, false);
  count = fmaxf(block_of(count, false), 1);
  if (threadIdx.x != 0) return;
  a.loss[blockIdx.x] = sum / count;
  a.counts[blockIdx.x] = count;
}

extern "C" __global__ void loss_gradient(LossGradientArgs a) {
  u64 row = blockIdx.x, at = row * a.width;
  u32 client = row / a.rows;
  i64 label = a.labels[row];
  float factor = label == a.ignored ? 0 : a.gradient[client] / a.counts[client], log = a.logs[row];
  for (u32 k = threadIdx.x; k < a.width; k += blockDim.x) {
    float share = label == a.ignored ? 0 : expf(load((const T*)a.logits, at + k) - log) - (k == label ? 1 : 0);
    store((T*)a.dlogits, at + k, share * factor);
  }
}
