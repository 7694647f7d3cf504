#include "application/models/ops/sums_args.h"
#include "core/device/kernel_prelude.cuh"

// Options: ELEMENT. Sums in a fixed order, added to the gradients.

typedef ELEMENT T;

#define FOLD_WARPS 8
// A block takes 32 columns of one gradient, a warp every 8th block of rows.
extern "C" __global__ void __launch_bounds__(32 * FOLD_WARPS) fold_sums(FoldSumsArgs a) {
  __shared__ float shared[FOLD_WARPS][32];
  u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, k = blockIdx.x * 32 + lane;
  u32 which = blockIdx.y / a.clients, client = blockIdx.y % a.clients;
  GradientRow to = which == 0 ? a.gradients[0] : which == 1 ? a.gradients[1] : a.gradients[2];
  if (to.data == 0) return;
  float sum = 0;
  if (k < a.width) {
#pragma unroll 8
    for (u32 b = warp; b < a.blocks; b += FOLD_WARPS) sum += a.sums[((u64)blockIdx.y * a.blocks + b) * a.width + k];
  }
  shared[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || k >= a.width) return;
  sum = 0;
  for (u32 w = 0; w < FOLD_WARPS; ++w) sum += shared[w][lane];
  to.data[client * to.stride + k] += sum;
}

// A block takes 128 columns and block_rows rows of a client, a warp every 8th row; a lane takes four columns.
extern "C" __global__ void __launch_bounds__(256) column_sums(ColumnSumsArgs a) {
  __shared__ float shared[8][128];
  u32 client = blockIdx.y, lane = threadIdx.x % 32, warp = threadIdx.x / 32, block = blockIdx.x / a.chunks;
  u32 width = a.width, first = blockIdx.x % a.chunks * 128, column = first + 4 * lane, begin = block * a.block_rows;
  u32 end = begin + a.block_rows < a.rows ? begin + a.block_rows : a.rows;
  float sum[4] = {};
  const T* from = (const T*)a.x + (u64)client * a.rows * width;
  if (width % 4 == 0 && column < width) {
#pragma unroll 8
    for (u32 r = begin + warp; r < end; r += 8) {
      float v[4];
      load4(from, (u64)r * width + column, v);
      for (u32 j = 0; j < 4; ++j) sum[j] += v[j];
    }
  } else {
    for (u32 r = begin + warp; r < end; r += 8)
      for (u32 j = 0; j < 4; ++j)
        if (column + j < width) sum[j] += load(from, (u64)r * width + column + j);
  }
  for (u32 j = 0; j < 4; ++j) shared[warp][4 * lane + j] = sum[j];
  __syncthreads();
  u32 k = first + threadIdx.x;
  if (threadIdx.x >= 128 || k >= width) return;
  float total = 0;
  for (u32 w = 0; w < 8; ++w) total += shared[w][threadIdx.x];
  a.sums[((u64)client * (gridDim.x / a.chunks) + block) * width + k] = total;
}
