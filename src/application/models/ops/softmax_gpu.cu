#include "application/models/ops/dropout.cuh"
#include "application/models/ops/softmax_args.h"

// Options: ELEMENT. A warp takes a row of at most 32 * PER_LANE keys.

typedef ELEMENT T;
#define PER_LANE 32

struct Row {
  u32 seen;  // number of keys the query attends to
  u64 key, group;
};

__device__ inline Row row_of(u32 row, const SoftmaxShape& s, const MaskArgs& mask) {
  u32 q = row % s.queries, h = row / s.queries % s.heads, n = row / s.queries / s.heads;
  Row r;
  r.seen = (u32)s.keys_of[n];
  if (s.causal && q + 1 < r.seen) r.seen = q + 1;
  if (q >= (u32)s.queries_of[n]) r.seen = 0;
  r.key = mask_key(mask, (u32)s.client_of[n]);
  r.group = (((((u64)s.sequence_of[n] * s.heads + h) << 16) + q) << 16) / 4;
  return r;
}

extern "C" __global__ void attention_softmax(SoftmaxArgs a) {
  u32 row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= a.shape.rows) return;
  Row r = row_of(row, a.shape, a.mask);
  u32 width = a.shape.width;
  u64 at = (u64)row * width;
  float x[PER_LANE], top = -3e38f, sum = 0;
  for (u32 i = 0, j = lane; j < r.seen; ++i, j += 32) {
    x[i] = load((const T*)a.scores, at + j) * a.shape.scale;
    top = fmaxf(top, x[i]);
  }
  top = warp_max(top);
  for (u32 i = 0, j = lane; j < r.seen; ++i, j += 32) {
    x[i] = expf(x[i] - top);
    sum += x[i];
  }
  sum = warp_sum(sum);
  for (u32 i = 0, j = lane; j < width; ++i, j += 32) {
    float value = j < r.seen ? x[i] / sum : 0.0f;
    store((T*)a.weights, at + j, value);
    if (a.mask.threshold > 0) {
      store((T*)a.masked, at + j, value * kept(mask_hash(r.key, r.group + j / 4), j % 4, a.mask));
    }
  }
}

extern "C" __global__ void attention_softmax_gradient(SoftmaxGradientArgs a) {
  u32 row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= a.shape.rows) return;
  Row r = row_of(row, a.shape, a.mask);
  u32 width = a.shape.width;
  u64 at = (u64)row * width;
  float g[PER_LANE], w[PER_LANE], sum = 0;
  for (u32 i = 0, j = lane; j < r.seen; ++i, j += 32) {
    w[i] = load((const T*)a.weights, at + j);
    g[i] = load((const T*)a.dmasked, at + j);
    if (a.mask.threshold > 0) g[i] *= kept(mask_hash(r.key, r.group + j / 4), j % 4, a.mask);
    sum += g[i] * w[i];
  }
  sum = warp_sum(sum);
  for (u32 i = 0, j = lane; j < width; ++i, j += 32) {
    store((T*)a.dscores, at + j, j < r.seen ? w[i] * (g[i] - sum) * a.shape.scale : 0.0f);
  }
}
