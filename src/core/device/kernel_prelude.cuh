#pragma once

#include "core/device/kernel_types.h"

// Included by every kernel: bfloat16, and loads and stores of one, two or four neighbouring elements as float32. Groups
// of two and four must be aligned to their size.

using namespace chorus;

struct bf16 {
  u16 bits;
};

__device__ inline float low_of(u32 both) { return __uint_as_float(both << 16); }
__device__ inline float high_of(u32 both) { return __uint_as_float(both & 0xFFFF0000u); }

// Two floats rounded to bfloat16 (nearest, ties to even).
__device__ inline u32 pair(float low, float high) {
  u32 both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

__device__ inline float load(const float* p, u64 i) { return p[i]; }
__device__ inline float load(const bf16* p, u64 i) { return __uint_as_float((u32)p[i].bits << 16); }

__device__ inline void store(float* p, u64 i, float x) { p[i] = x; }
__device__ inline void store(bf16* p, u64 i, float x) {
  u32 u = __float_as_uint(x);
  // Nearest, ties to even; NaN stays NaN.
  p[i].bits = x != x ? 0x7FC0 : (u16)((u + 0x7FFF + ((u >> 16) & 1)) >> 16);
}

__device__ inline void load2(const float* p, u64 i, float* v) {
  float2 x = *(const float2*)(p + i);
  v[0] = x.x;
  v[1] = x.y;
}
__device__ inline void load2(const bf16* p, u64 i, float* v) {
  u32 x = *(const u32*)(p + i);
  v[0] = low_of(x);
  v[1] = high_of(x);
}

__device__ inline void load4(const float* p, u64 i, float* v) {
  float4 x = *(const float4*)(p + i);
  v[0] = x.x;
  v[1] = x.y;
  v[2] = x.z;
  v[3] = x.w;
}
__device__ inline void load4(const bf16* p, u64 i, float* v) {
  uint2 x = *(const uint2*)(p + i);
  v[0] = low_of(x.x);
  v[1] = high_of(x.x);
  v[2] = low_of(x.y);
  v[3] = high_of(x.y);
}

__device__ inline void store4(float* p, u64 i, const float* v) {
  *(float4*)(p + i) = make_float4(v[0], v[1], v[2], v[3]);
}
__device__ inline void store4(bf16* p, u64 i, const float* v) {
  *(uint2*)(p + i) = make_uint2(pair(v[0], v[1]), pair(v[2], v[3]));
}

// Over the 32 lanes of a warp; every lane gets the result.
__device__ inline float warp_sum(float x) {
  for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
  return x;
}
__device__ inline float warp_max(float x) {
  for (int d = 16; d > 0; d /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, d));
  return x;
}
