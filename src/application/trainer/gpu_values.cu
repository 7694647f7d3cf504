#include "application/trainer/gpu_values_args.h"
#include "core/device/kernel_prelude.cuh"

// A thread takes four neighbouring elements, in one load and store if they are aligned. The table and its rows start
// and end at multiples of four; a client's rows may be unaligned. blockIdx.y is a thread's first client.

__device__ inline float4 load_four(const float* at) {
  if ((u64)at % 16 == 0) return *(const float4*)at;
  return make_float4(at[0], at[1], at[2], at[3]);
}
__device__ inline void store_four(float* at, float4 v) {
  if ((u64)at % 16 == 0) {
    *(float4*)at = v;
  } else {
    at[0] = v.x, at[1] = v.y, at[2] = v.z, at[3] = v.w;
  }
}
__device__ inline bool faulty_number(float x) { return (__float_as_uint(x) & 0x7f800000u) == 0x7f800000u; }

extern "C" __global__ void __launch_bounds__(256) begin_values(BeginValuesArgs a) {
  const i64 begin = a.table.begin, size = a.table.size, width = a.table.width, used = a.table.used, count = a.count;
  const i64 others = count - used * width, step = 4 * (i64)gridDim.x * blockDim.x, first = blockIdx.y;
  const float* start = a.start + first * a.start_stride;
  for (i64 i = 4 * (blockIdx.x * (i64)blockDim.x + threadIdx.x); i < count; i += step) {
    if (i + 4 <= others) {
      const float4 v = load_four(start + (i < begin ? i : i + size));
      const uint2 rounded = make_uint2(pair(v.x, v.y), pair(v.z, v.w));
      for (i64 c = first; c < first + a.clients; ++c) {
        store_four(a.values + c * a.values_stride + i, v);
        if (a.shadow != 0) *(uint2*)(a.shadow + c * a.shadow_stride + i) = rounded;
      }
      continue;
    }
    for (i64 c = first; c < first + a.clients; ++c) {
      for (i64 j = i; j < i + 4 && j < count; ++j) {
        i64 from = j < begin ? j : j + size;
        if (j >= others) {
          const u32 at = (u32)(j - others);
          from = begin + a.table.rows[c * used + at / (u32)width] * width + at % (u32)width;
        }
        a.values[c * a.values_stride + j] = start[from];
        if (a.shadow != 0) a.shadow[c * a.shadow_stride + j] = (u16)pair(start[from], 0);
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(256) changes(ChangesArgs a) {
  const i64 begin = a.table.begin, size = a.table.size, width = a.table.width, count = a.count;
  const i64 others = count - size, step = 4 * (i64)gridDim.x * blockDim.x, first = blockIdx.y;
  const float* start = a.start + first * a.start_stride;
  for (i64 i = 4 * (blockIdx.x * (i64)blockDim.x + threadIdx.x); i < count; i += step) {
    const bool whole = i + 4 <= count, word = i >= begin && i < begin + size;
    const u32 row = word ? (u32)(i - begin) / (u32)width : 0;
    const float4 b = whole ? load_four(start + i) : make_float4(0, 0, 0, 0);
    for (i64 c = first; c < first + a.clients; ++c) {
      i64 from = i < begin ? i : i - size;
      if (word) {
        const i64 name = a.names[c * a.vocabulary + row];
        if (a.table.rows[c * a.table.used + name] != row) {
          store_four(a.out + c * a.out_stride + i, make_float4(0, 0, 0, 0));
          continue;
        }
        from = others + name * width + (i - begin) % width;
      }
      const float* mine = a.values + c * a.values_stride + from;
      float* to = a.out + c * a.out_stride + i;
      bool bad = false;
      if (whole) {
        const float4 v = load_four(mine), d = make_float4(v.x - b.x, v.y - b.y, v.z - b.z, v.w - b.w);
        bad = faulty_number(d.x) || faulty_number(d.y) || faulty_number(d.z) || faulty_number(d.w);
        store_four(to, d);
      } else {
        for (i64 j = 0; i + j < count; ++j) {
          to[j] = mine[j] - start[i + j];
          bad |= faulty_number(to[j]);
        }
      }
      if (bad) a.faulty[c] = 1;
    }
  }
}
