// The part of CUDA that our kernels use, for clang without a CUDA installation (kernel_test.cpp). Functions of the math
// library are declared only: the test compiles, it does not link.
#pragma once

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __align__(n) __attribute__((aligned(n)))

#define CHORUS_INDEX(name, register)                                                   \
  struct name##_t {                                                                    \
    __declspec(property(get = x_of)) unsigned x;                                       \
    __declspec(property(get = y_of)) unsigned y;                                       \
    __device__ unsigned x_of() const { return __nvvm_read_ptx_sreg_##register##_x(); } \
    __device__ unsigned y_of() const { return __nvvm_read_ptx_sreg_##register##_y(); } \
  };                                                                                   \
  extern const __device__ name##_t name;
CHORUS_INDEX(threadIdx, tid)
CHORUS_INDEX(blockIdx, ctaid)
CHORUS_INDEX(blockDim, ntid)
CHORUS_INDEX(gridDim, nctaid)

struct __align__(8) float2 {
  float x, y;
};
struct __align__(16) float4 {
  float x, y, z, w;
};
struct __align__(8) uint2 {
  unsigned x, y;
};
struct __align__(16) uint4 {
  unsigned x, y, z, w;
};
struct __align__(16) int4 {
  int x, y, z, w;
};
__device__ inline float2 make_float2(float x, float y) { return {x, y}; }
__device__ inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
__device__ inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
__device__ inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
__device__ inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }

__device__ inline float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
__device__ inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
__device__ inline int __syncthreads_count(int x) { return __nvvm_bar0_popc(x); }
__device__ inline void __syncwarp() { __nvvm_bar_warp_sync(0xffffffffu); }
__device__ inline unsigned __shfl_sync(unsigned mask, unsigned x, int lane) {
  return (unsigned)__nvvm_shfl_sync_idx_i32(mask, (int)x, lane, 0x1f);
}
__device__ inline unsigned __shfl_xor_sync(unsigned mask, unsigned x, int lanes) {
  return (unsigned)__nvvm_shfl_sync_bfly_i32(mask, (int)x, lanes, 0x1f);
}
__device__ inline float __shfl_xor_sync(unsigned mask, float x, int lanes) {
  return __nvvm_shfl_sync_bfly_f32(mask, x, lanes, 0x1f);
}
__device__ inline float atomicAdd(float* at, float x) { return __nvvm_atom_add_gen_f(at, x); }
__device__ inline unsigned long __cvta_generic_to_shared(const void* at) {
  return (unsigned long)(const __attribute__((address_space(3))) void*)at;
}

extern "C" {
__device__ float expf(float);
__device__ float __expf(float);
__device__ float logf(float);
__device__ float __log2f(float);
__device__ float sqrtf(float);
__device__ float tanhf(float);
__device__ float erff(float);
__device__ float fmaxf(float, float);
__device__ float fminf(float, float);
}
