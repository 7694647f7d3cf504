#include "application/models/ops/dropout.cuh"

// Options: ELEMENT. A thread takes groups of four neighbouring elements, which share one hash.

typedef ELEMENT T;

__device__ inline void mask_group(const void* x, void* y, u64 row, u32 g, u32 width, u64 bits, const MaskArgs& mask) {
  for (u32 j = 0; j < 4 && 4 * g + j < width; ++j) {
    u64 at = row * width + 4 * g + j;
    store((T*)y, at, load((const T*)x, at) * kept(bits, j, mask));
  }
}

extern "C" __global__ void mask_hidden(MaskHiddenArgs a) {
  u32 groups = (a.width + 3) / 4;
  for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < a.total; i += gridDim.x * blockDim.x) {
    u32 row = i / groups, g = i % groups;
    u64 bits = mask_hash(mask_key(a.mask, row / a.rows), mask_row(a.mask, row, a.rows) * groups + g);
    mask_group(a.x, a.y, row, g, a.width, bits, a.mask);
  }
}

extern "C" __global__ void mask_weights(MaskWeightsArgs a) {
  u32 groups = (a.width + 3) / 4;
  for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < a.total; i += gridDim.x * blockDim.x) {
    u32 row = i / groups, g = i % groups;
    u32 q = row % a.queries, h = row / a.queries % a.heads, n = row / a.queries / a.heads;
    u64 start = ((((u64)a.sequence_of[n] * a.heads + h) << 16) + q) << 16;
    u64 bits = mask_hash(mask_key(a.mask, (u32)a.client_of[n]), start / 4 + g);
    mask_group(a.x, a.y, row, g, a.width, bits, a.mask);
  }
}
