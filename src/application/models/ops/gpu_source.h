#pragma once

#include <string>

#include "application/models/ops/dropout.h"
#include "core/device/gpu_kernel.h"

namespace chorus {

/// What the sources of our GPU kernels begin with: bfloat16, and the hash of dropout's masks (mask_hash.h).
inline constexpr const char* kGpuPrelude = R"(
typedef unsigned long long u64;
typedef unsigned u32;
typedef unsigned short u16;
struct bf16 { u16 bits; };
__device__ inline float load(const float* p, u64 i) { return p[i]; }
__device__ inline float load(const bf16* p, u64 i) { return __uint_as_float((unsigned)p[i].bits << 16); }
__device__ inline void store(float* p, u64 i, float x) { p[i] = x; }
__device__ inline void store(bf16* p, u64 i, float x) {
  unsigned u = __float_as_uint(x);
  // to the nearest, ties to even; what is no number stays one
  p[i].bits = x != x ? 0x7FC0 : (unsigned short)((u + 0x7FFF + ((u >> 16) & 1)) >> 16);
}
// Two or four neighbours, at a multiple of as many.
__device__ inline void load2(const float* p, u64 i, float* v) {
  float2 x = *(const float2*)(p + i);
  v[0] = x.x; v[1] = x.y;
}
__device__ inline void load2(const bf16* p, u64 i, float* v) {
  u32 x = *(const u32*)(p + i);
  v[0] = __uint_as_float(x << 16); v[1] = __uint_as_float(x & 0xFFFF0000u);
}
__device__ inline void load4(const float* p, u64 i, float* v) {
  float4 x = *(const float4*)(p + i);
  v[0] = x.x; v[1] = x.y; v[2] = x.z; v[3] = x.w;
}
__device__ inline void load4(const bf16* p, u64 i, float* v) {
  uint2 x = *(const uint2*)(p + i);
  v[0] = __uint_as_float(x.x << 16); v[1] = __uint_as_float(x.x & 0xFFFF0000u);
  v[2] = __uint_as_float(x.y << 16); v[3] = __uint_as_float(x.y & 0xFFFF0000u);
}
__device__ inline void store4(float* p, u64 i, const float* v) { *(float4*)(p + i) = make_float4(v[0], v[1], v[2], v[3]); }
__device__ inline u32 pair(float low, float high) {
  u32 both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
__device__ inline void store4(bf16* p, u64 i, const float* v) {
  *(uint2*)(p + i) = make_uint2(pair(v[0], v[1]), pair(v[2], v[3]));
}
__device__ inline u64 mask_hash(u64 key, u64 group) {
  u64 z = key + 0x9E3779B97F4A7C15ULL * group;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}
__device__ inline u64 key_of(const long long* seeds, unsigned client, u64 call) {
  return mask_hash((u64)seeds[client], call + 1);
}
__device__ inline float kept(u64 bits, unsigned j, unsigned threshold, float scale) {
  return (unsigned)((bits >> (16 * j)) & 0xFFFF) < threshold ? 0.0f : scale;
}
)";

/// Threads of a block, where nothing speaks for another number.
inline constexpr int kGpuThreads = 256;

/// How the prelude calls a type: float32 or bfloat16.
const char* gpu_type(at::ScalarType type);

/// The kernel `name` of a source, after the prelude and after what is defined for it; each is made once.
const GpuKernel& gpu_kernel_for(const char* name, const std::string& defined, const char* source);

/// The seeds that a kernel makes masks from; null: nothing is dropped.
const std::int64_t* seeds_of(const Dropout::Site& site);

/// A small parameter [H] of all, or [C, H], to be read four numbers at a time where H is a multiple of 4; null where
/// the tensor is undefined.
struct OfClient {
  explicit OfClient(const at::Tensor& tensor);
  at::Tensor aligned;
  const float* data;
  std::int64_t stride;
};

}  // namespace chorus
