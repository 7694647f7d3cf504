#include "application/models/ops/sums_args.h"
#include "core/device/kernel_prelude.cuh"

// Options: ELEMENT. Sums in a fixed order, added to the gradients.

typedef ELEMENT T;

extern "C" __global__ void fold_sums(FoldSumsArgs a) {
  u32 k = blockIdx.x * blockDim.x + threadIdx.x, which = blockIdx.y / a.clients, client = blockIdx.y % a.clients;
  GradientRow to = which == 0 ? a.gradients[0] : which == 1 ? a.gradients[1] : a.gradients[2];
  if (k >= a.width || to.data == 0) return;
  float sum = 0;  // added in order; unrolled for the sake of many loads at a time
#pragma unroll 16
  for (u32 b = 0; b < a.blocks; ++b) sum += a.sums[((u64)blockIdx.y * a.blocks + b) * a.width + k];
  to.data[client * to.stride + k] += sum;
}

// A block takes 64 columns, a warp every 16th row.
extern "C" __global__ void __launch_bounds__(512) column_sums(ColumnSumsArgs a) {
  __shared__ float shared[16][64];
  u32 client = blockIdx.y, lane = threadIdx.x % 32, warp = threadIdx.x / 32, column = blockIdx.x * 64 + 2 * lane;
  u32 rows = a.rows, width = a.width;
  float low = 0, high = 0;
  const T* from = (const T*)a.x + (u64)client * rows * width;
  if (width % 2 == 0 && column < width) {
#pragma unroll 8
    for (u32 r = warp; r < rows; r += 16) {
      float v[2];
      load2(from, (u64)r * width + column, v);
      low += v[0];
      high += v[1];
    }
  } else {
    for (u32 r = warp; r < rows; r += 16) {
      if (column < width) low += load(from, (u64)r * width + column);
      if (column + 1 < width) high += load(from, (u64)r * width + column + 1);
    }
  }
  shared[warp][2 * lane] = low;
  shared[warp][2 * lane + 1] = high;
  __syncthreads();
  if (threadIdx.x >= 64 || blockIdx.x * 64 + threadIdx.x >= width) return;
  float sum = 0;
  for (u32 w = 0; w < 16; ++w) sum += shared[w][threadIdx.x];
  a.gradient.data[client * a.gradient.stride + blockIdx.x * 64 + threadIdx.x] += sum;
}
