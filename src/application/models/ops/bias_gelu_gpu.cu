#include "application/models/ops/bias_gelu_args.h"
#include "core/device/kernel_prelude.cuh"

// Options: ELEMENT, BY_TANH. A block takes rows of a client, a thread four neighbouring elements of each.

typedef ELEMENT T;

// The standard normal distribution and its density. bfloat16 uses Abramowitz and Stegun's 7.1.26, whose error is below
// 1e-7: its exponential is the density's.
struct Normal {
  float below, density;
};
__device__ inline float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline Normal normal(float x) {
  float bell = __expf(-0.5f * x * x), below;
  if (sizeof(T) == 2) {
    float t = reciprocal(1.0f + 0.2316419f * fmaxf(x, -x));
    float tail = bell * t *
                 (0.127414796f + t * (-0.142248368f + t * (0.7107068705f + t * (-0.7265760135f + t * 0.5307027145f))));
    below = x < 0 ? tail : 1 - tail;
  } else {
    below = 0.5f * (1 + erff(x * 0.7071067811865476f));
  }
  return {below, 0.3989422804014327f * bell};
}
__device__ inline float tanh_of(float x) { return tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)); }
__device__ inline float gelu(float x) { return BY_TANH ? 0.5f * x * (1 + tanh_of(x)) : x * normal(x).below; }
__device__ inline float slope(float x) {
  if (BY_TANH) {
    float t = tanh_of(x);
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.7978845608028654f * (1 + 3 * 0.044715f * x * x);
  }
  Normal at = normal(x);
  return at.below + x * at.density;
}
__device__ inline void load_bias(ClientRow bias, u32 k, float* v) {
  v[0] = v[1] = v[2] = v[3] = 0;
  if (bias.data != 0) load4(bias.data, blockIdx.y * bias.stride + k, v);
}

template <typename Function>
__device__ inline void with_bias(const BiasArgs& a, Function function) {
  u32 k = 4 * (blockIdx.x % a.chunks * blockDim.x + threadIdx.x), step = gridDim.x / a.chunks, rows = a.rows;
  if (k >= a.width) return;
  float b[4], v[4];
  load_bias(a.bias, k, b);
#pragma unroll 4
  for (u32 r = blockIdx.x / a.chunks; r < rows; r += step) {
    u64 at = ((u64)blockIdx.y * rows + r) * a.width + k;
    load4((const T*)a.x, at, v);
    for (u32 j = 0; j < 4; ++j) v[j] = function(v[j] + b[j]);
    store4((T*)a.y, at, v);
  }
}

extern "C" __global__ void add_bias(BiasArgs a) {
  with_bias(a, [](float v) { return v; });
}

extern "C" __global__ void bias_gelu(BiasArgs a) {
  with_bias(a, [](float v) { return gelu(v); });
}

extern "C" __global__ void bias_gelu_gradient(BiasGeluGradientArgs a) {
  u32 k = 4 * (blockIdx.x % a.chunks * blockDim.x + threadIdx.x), block = blockIdx.x / a.chunks, rows = a.rows;
  u32 begin = block * a.block_rows, end = begin + a.block_rows < rows ? begin + a.block_rows : rows;
  if (k >= a.width) return;
  float b[4], v[4], d[4], sum[4] = {};
  load_bias(a.bias, k, b);
#pragma unroll 4
  for (u32 r = begin; r < end; ++r) {
    u64 at = ((u64)blockIdx.y * rows + r) * a.width + k;
    load4((const T*)a.x, at, v);
    load4((const T*)a.dy, at, d);
    for (u32 j = 0; j < 4; ++j) {
      d[j] *= slope(v[j] + b[j]);
      sum[j] += d[j];
    }
    store4((T*)a.dx, at, d);
  }
  if (a.sums != 0) store4(a.sums, ((u64)blockIdx.y * (gridDim.x / a.chunks) + block) * a.width + k, sum);
}
