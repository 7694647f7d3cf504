#include "application/models/ops/dropout.cuh"
#include "application/models/ops/norm_args.h"

// Options: F_ELEMENT of f, X_ELEMENT of x, Y_ELEMENT of the results, and G: the maximum number of groups of four
// elements per lane. A warp takes a row, a lane every 32nd group.

typedef F_ELEMENT F;
typedef X_ELEMENT X;
typedef Y_ELEMENT Y;

extern "C" __global__ void __launch_bounds__(256) residual_norm(ResidualNormArgs a) {
  u32 row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= a.total) return;
  u32 client = row / a.rows, width = a.width, groups = width / 4, threshold = a.mask.threshold;
  u64 key = mask_key(a.mask, client), first = mask_row(a.mask, row, a.rows) * groups, at = (u64)row * width;
  float s[G][4], sum = 0;
#pragma unroll
  for (u32 i = 0; i < G; ++i) {
    u32 g = lane + 32 * i;
    if (g >= groups) continue;
    load4((const F*)a.f, at + 4 * g, s[i]);
    u64 bits = threshold > 0 ? mask_hash(key, first + g) : 0;
    float others[4] = {}, added[4] = {};
    if (a.x != 0) load4((const X*)a.x, at + 4 * g, others);
    if (a.f_bias.data != 0) load4(a.f_bias.data, client * a.f_bias.stride + 4 * g, added);
    for (u32 j = 0; j < 4; ++j) {
      s[i][j] += added[j];
      if (threshold > 0) s[i][j] *= kept(bits, j, a.mask);
      s[i][j] += others[j];
      sum += s[i][j];
    }
  }
  float mean = warp_sum(sum) / width, squares = 0;
#pragma unroll
  for (u32 i = 0; i < G; ++i) {
    if (lane + 32 * i >= groups) continue;
    for (u32 j = 0; j < 4; ++j) {
      s[i][j] -= mean;
      squares += s[i][j] * s[i][j];
    }
  }
  float factor = 1.0f / sqrtf(warp_sum(squares) / width + a.epsilon);
  if (a.inverse != 0 && lane == 0) a.inverse[row] = factor;
  const float *weight = a.weight.data + client * a.weight.stride, *bias = a.bias.data + client * a.bias.stride;
#pragma unroll
  for (u32 i = 0; i < G; ++i) {
    u32 g = lane + 32 * i;
    if (g >= groups) continue;
    float w[4], b[4];
    load4(weight, 4 * g, w);
    load4(bias, 4 * g, b);
    for (u32 j = 0; j < 4; ++j) s[i][j] *= factor;
    if (a.normal != 0) store4((Y*)a.normal, at + 4 * g, s[i]);
    for (u32 j = 0; j < 4; ++j) s[i][j] = s[i][j] * w[j] + b[j];
    store4((Y*)a.y, at + 4 * g, s[i]);
  }
}

// G warps take a row; a thread takes four neighbouring elements in all rows of its block, four rows at a time.
#define TOGETHER 4
// Sums 8 elements per lane over a warp: lane 4 i gets the sum of element i.
__device__ inline float sum_of_each(float* v) {
  u32 lane = threadIdx.x % 32;
#pragma unroll
  for (u32 count = 4, far = 16; count > 0; count /= 2, far /= 2) {
    bool upper = lane & far;
#pragma unroll
    for (u32 i = 0; i < count; ++i) {
      float other = __shfl_xor_sync(0xffffffffu, upper ? v[i] : v[i + count], far);
      v[i] = (upper ? v[i + count] : v[i]) + other;
    }
  }
  v[0] += __shfl_xor_sync(0xffffffffu, v[0], 2);
  return v[0] + __shfl_xor_sync(0xffffffffu, v[0], 1);
}
// Four neighbouring elements as they are in memory.
template <typename E>
struct Four {
  float4 raw;
  __device__ inline void fetch(const E* p) { raw = *(const float4*)p; }
  __device__ inline void get(float* v) const { load4((const E*)&raw, 0, v); }
  __device__ inline void clear() { raw = make_float4(0, 0, 0, 0); }
};
template <>
struct Four<bf16> {
  uint2 raw;
  __device__ inline void fetch(const bf16* p) { raw = *(const uint2*)p; }
  __device__ inline void get(float* v) const { load4((const bf16*)&raw, 0, v); }
  __device__ inline void clear() { raw = make_uint2(0, 0); }
};
// What a thread reads of TOGETHER rows, while the rows before them are in use.
struct NextRows {
  Four<Y> dy[TOGETHER], normal[TOGETHER];
  float inverse[TOGETHER];
  __device__ inline void fetch(const ResidualNormGradientArgs& a, u64 first, u32 count, u32 k, bool mine) {
#pragma unroll
    for (u32 i = 0; i < TOGETHER; ++i) {
      if (mine && i < count) {
        u64 at = (first + i) * a.width + k;
        dy[i].fetch((const Y*)a.dy + at);
        normal[i].fetch((const Y*)a.normal + at);
        inverse[i] = a.inverse[first + i];
      } else {
        dy[i].clear();
        normal[i].clear();
        inverse[i] = 0;
      }
    }
  }
};
extern "C" __global__ void __launch_bounds__(32 * G) residual_norm_gradient(ResidualNormGradientArgs a) {
  __shared__ __align__(16) float parts[2][G][2 * TOGETHER];
  u32 client = blockIdx.y, k = 4 * threadIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32, turn = 0;
  u32 rows = a.rows, width = a.width, threshold = a.mask.threshold, begin = blockIdx.x * a.block_rows;
  u32 end = begin + a.block_rows < rows ? begin + a.block_rows : rows;
  bool mine = k < width;
  u64 key = mask_key(a.mask, client), own = (u64)client * rows;
  float w[4] = {}, dweight[4] = {}, dbias[4] = {}, df_bias[4] = {};
  if (mine) load4(a.weight.data, client * a.weight.stride + k, w);
  NextRows next;
  next.fetch(a, own + begin, begin < end ? end - begin : 0, k, mine);
  for (u32 first = begin; first < end; first += TOGETHER, turn ^= 1) {
    float d[TOGETHER][4], n[TOGETHER][4], inverse[TOGETHER], part[2 * TOGETHER];
#pragma unroll
    for (u32 i = 0; i < TOGETHER; ++i) {
      next.dy[i].get(d[i]);
      next.normal[i].get(n[i]);
      inverse[i] = next.inverse[i];
    }
    u32 following = first + TOGETHER;
    next.fetch(a, own + following, following < end ? end - following : 0, k, mine);
#pragma unroll
    for (u32 i = 0; i < TOGETHER; ++i) {
      part[2 * i] = part[2 * i + 1] = 0;
      for (u32 j = 0; j < 4; ++j) {
        dweight[j] += d[i][j] * n[i][j];
        dbias[j] += d[i][j];
        d[i][j] *= w[j];
        part[2 * i] += d[i][j];
        part[2 * i + 1] += d[i][j] * n[i][j];
      }
    }
    float sum = sum_of_each(part);
    if (lane % 4 == 0) parts[turn][warp][lane / 4] = sum;
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < TOGETHER; ++i) {
      if (!mine || first + i >= end) continue;
      float mean = 0, slope = 0;
#pragma unroll
      for (u32 other = 0; other < G; ++other) {
        float2 both = *(const float2*)&parts[turn][other][2 * i];
        mean += both.x;
        slope += both.y;
      }
      mean /= width;
      slope /= width;
      u64 row = own + first + i, at = row * width + k;
      for (u32 j = 0; j < 4; ++j) d[i][j] = inverse[i] * (d[i][j] - mean - n[i][j] * slope);
      if (a.dx != 0) store4((X*)a.dx, at, d[i]);
      u64 bits = threshold > 0 ? mask_hash(key, mask_row(a.mask, row, rows) * (width / 4) + threadIdx.x) : 0;
      for (u32 j = 0; j < 4; ++j) {
        if (threshold > 0) d[i][j] *= kept(bits, j, a.mask);
        df_bias[j] += d[i][j];
      }
      if (a.df != 0) store4((F*)a.df, at, d[i]);
    }
  }
  if (a.sums == 0 || !mine) return;
  u64 at = ((u64)client * gridDim.x + blockIdx.x) * width + k, third = (u64)a.clients * gridDim.x * width;
  store4(a.sums, at, dweight);
  store4(a.sums, third + at, dbias);
  store4(a.sums, 2 * third + at, df_bias);
}
