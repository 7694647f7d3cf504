#include "application/models/ops/attention.cuh"

// float32 attention with TF32 matmuls: attention_gpu.cu with the fragments of mma.m16n8k8.
//
// Options: D, the width of a head.
//
// For lane = 4 g + t: an A (16 x 8) has rows g and g + 8, columns t and t + 4; a B (8 x 8) has rows t and t + 4, column
// g. The inner dimension may be in any order that both operands share. With 2t and 2t + 1 in place of t and t + 4, the
// accumulators of 8 columns are the A of the next matmul, and two neighbouring elements are one load.

#define STRIDE (D + 8)
// Rounds to nearest; the instruction itself would truncate.
__device__ inline u32 tf32(float x) {
  u32 y;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return y;
}
__device__ inline void mma(float* d, const u32* a, u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// Loads rows first + g and first + g + 8 of a matrix as A fragments; 0 past `count`.
__device__ inline void load_rows(u32 (*a)[4], const float* x, u64 stride, u32 first, u32 count) {
  u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (u32 half = 0; half < 2; ++half) {
    u32 row = first + g + 8 * half;
    const float2* from = (const float2*)(x + (u64)row * stride) + t;
#pragma unroll
    for (u32 i = 0; i < D / 8; ++i) {
      float2 both = row < count ? from[4 * i] : make_float2(0, 0);
      a[i][half] = tf32(both.x);
      a[i][half + 2] = tf32(both.y);
    }
  }
}
// Loads 16 rows of a tile as A fragments.
__device__ inline void load_rows(u32 (*a)[4], const u32 (*tile)[STRIDE]) {
  u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (u32 half = 0; half < 2; ++half)
#pragma unroll
    for (u32 i = 0; i < D / 8; ++i) {
      uint2 both = *(const uint2*)&tile[g + 8 * half][8 * i + 2 * t];
      a[i][half] = both.x;
      a[i][half + 2] = both.y;
    }
}
// Prefetches rows [first, first + N) of a matrix for shared memory, while another tile is in use; 0 past `count`.
template <u32 N>
struct Tile {
  float4 parts[N * (D / 4) / 128];
  __device__ inline void fetch(const float* x, u64 stride, u32 first, u32 count) {
#pragma unroll
    for (u32 k = 0; k < N * (D / 4) / 128; ++k) {
      u32 i = threadIdx.x + 128 * k, row = i / (D / 4), part = i % (D / 4);
      parts[k] = make_float4(0, 0, 0, 0);
      if (first + row < count) parts[k] = *(const float4*)(x + (u64)(first + row) * stride + part * 4);
    }
  }
  template <u32 S>
  __device__ inline void put(u32 (*tile)[S]) const {
#pragma unroll
    for (u32 k = 0; k < N * (D / 4) / 128; ++k) {
      u32 i = threadIdx.x + 128 * k;
      *(uint4*)&tile[i / (D / 4)][i % (D / 4) * 4] =
          make_uint4(tf32(parts[k].x), tf32(parts[k].y), tf32(parts[k].z), tf32(parts[k].w));
    }
  }
};
template <u32 N>
__device__ inline void copy_rows(u32 (*tile)[STRIDE], const float* x, u64 stride, u32 first, u32 count) {
  Tile<N> rows;
  rows.fetch(x, stride, first, count);
  rows.put(tile);
}
// s [N / 8][4] = rows (A fragments) times the transposed tile.
template <u32 N>
__device__ inline void scores(float (*s)[4], const u32 (*a)[4], const u32 (*tile)[STRIDE]) {
  u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (u32 n = 0; n < N / 8; ++n) {
#pragma unroll
    for (u32 e = 0; e < 4; ++e) s[n][e] = 0;
#pragma unroll
    for (u32 i = 0; i < D / 8; ++i) {
      uint2 b = *(const uint2*)&tile[n * 8 + g][8 * i + 2 * t];
      mma(s[n], a[i], b.x, b.y);
    }
  }
}
// sum [D / 8][4] += s [16 x N] times the tile [N x D].
template <u32 N, u32 S>
__device__ inline void accumulate(float (*sum)[4], const float (*s)[4], const u32 (*tile)[S]) {
  u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (u32 i = 0; i < N / 8; ++i) {
    u32 a[4] = {tf32(s[i][0]), tf32(s[i][2]), tf32(s[i][1]), tf32(s[i][3])};
#pragma unroll
    for (u32 n = 0; n < D / 8; ++n) mma(sum[n], a, tile[i * 8 + 2 * t][n * 8 + g], tile[i * 8 + 2 * t + 1][n * 8 + g]);
  }
}
__device__ inline void store_rows(float* x, u64 stride, const float (*sum)[4], u32 first, u32 count, float factor0,
                                  float factor1) {
  u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (u32 half = 0; half < 2; ++half) {
    u32 row = first + g + 8 * half;
    if (row >= count) continue;
    float2* to = (float2*)(x + (u64)row * stride) + t;
    float factor = half == 0 ? factor0 : factor1;
#pragma unroll
    for (u32 n = 0; n < D / 8; ++n) to[4 * n] = make_float2(sum[n][2 * half] * factor, sum[n][2 * half + 1] * factor);
  }
}
// Zeroes rows of one head.
__device__ inline void clear_rows(float* x, u64 stride, u32 rows) {
  for (u32 i = threadIdx.x; i < rows * (D / 4); i += 128)
    *(float4*)(x + (u64)(i / (D / 4)) * stride + i % (D / 4) * 4) = make_float4(0, 0, 0, 0);
}

extern "C" __global__ void __launch_bounds__(128, 3) attention_tf32_forward(AttentionForwardArgs args) {
  Sequence at = sequence_of(args.shape, args.mask);
  u32 begin = blockIdx.y * ROWS, first = begin + threadIdx.x / 32 * 16;
  if (begin >= at.q_count) return;
  __shared__ __align__(16) u32 key_tile[KEYS][STRIDE], value_tile[KEYS][D + 4];  // D + 4: read by columns
  u64 width = (u64)args.shape.heads * D;
  const float* q = (const float*)args.q + at.q_row * args.q_stride + at.head * D;
  const float* k = (const float*)args.k + at.k_row * args.k_stride + at.head * D;
  const float* v = (const float*)args.v + at.k_row * args.k_stride + at.head * D;
  float* out = (float*)args.out + at.q_row * width + at.head * D;
  if (begin == 0) clear_rows(out + at.q_count * width, width, at.q_tail);
  u32 a[D / 8][4];
  load_rows(a, q, args.q_stride, first, at.q_count);
  float sum[D / 8][4] = {};
  Softmax softmax;
  u32 end = args.shape.causal && begin + ROWS < at.k_count ? begin + ROWS : at.k_count;
  Tile<KEYS> next_keys, next_values;
  next_keys.fetch(k, args.k_stride, 0, at.k_count);
  next_values.fetch(v, args.k_stride, 0, at.k_count);
  for (u32 column = 0; column < end; column += KEYS) {
    __syncthreads();
    next_keys.put(key_tile);
    next_values.put(value_tile);
    __syncthreads();
    next_keys.fetch(k, args.k_stride, column + KEYS, at.k_count);
    next_values.fetch(v, args.k_stride, column + KEYS, at.k_count);
    float s[KEYS / 8][4];
    scores<KEYS>(s, a, key_tile);
    soften<KEYS>(s, sum, softmax, at, args, first, column);
    accumulate<KEYS>(sum, s, value_tile);
  }
  finish(softmax, at, args, first);
  store_rows(out, width, sum, first, at.q_count, 1.0f / softmax.total[0], 1.0f / softmax.total[1]);
}

// As in attention_gpu.cu.
__device__ inline void query_gradient(const u32 (*ds)[QUERIES + 8], const u32 (*keys)[STRIDE], float* sums, float* dq,
                                      u64 sum_stride, u64 dq_stride, u32 column, u32 q_count, bool first, bool last,
                                      float scale) {
  u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, warp = threadIdx.x / 32;
  u32 query = warp % 2 * 16, begin = warp / 2 * (D / 2);
  float part[D / 16][4];
#pragma unroll
  for (u32 half = 0; half < 2; ++half) {
    u32 row = column + query + g + 8 * half;
    const float2* sum = (const float2*)(sums + (u64)row * sum_stride + begin) + t;
#pragma unroll
    for (u32 n = 0; n < D / 16; ++n) {
      float2 before = first || row >= q_count ? make_float2(0, 0) : sum[4 * n];
      part[n][2 * half] = before.x;
      part[n][2 * half + 1] = before.y;
    }
  }
#pragma unroll
  for (u32 i = 0; i < ROWS / 8; ++i) {
    u32 low = 8 * i + t, high = low + 4;
    u32 a[4] = {ds[low][query + g], ds[low][query + g + 8], ds[high][query + g], ds[high][query + g + 8]};
#pragma unroll
    for (u32 n = 0; n < D / 16; ++n) mma(part[n], a, keys[low][begin + n * 8 + g], keys[high][begin + n * 8 + g]);
  }
#pragma unroll
  for (u32 half = 0; half < 2; ++half) {
    u32 row = column + query + g + 8 * half;
    if (row >= q_count) continue;
    float2* to = (float2*)((last ? dq + (u64)row * dq_stride : sums + (u64)row * sum_stride) + begin) + t;
    float factor = last ? scale : 1;
#pragma unroll
    for (u32 n = 0; n < D / 16; ++n)
      to[4 * n] = make_float2(part[n][2 * half] * factor, part[n][2 * half + 1] * factor);
  }
}

// As in attention_gpu.cu. The values are used only as A fragments and stay in registers, because a tile would not fit.
extern "C" __global__ void __launch_bounds__(128, 2) attention_tf32_gradient(AttentionGradientArgs args) {
  Sequence at = sequence_of(args.shape, args.mask);
  u32 heads = args.shape.heads, causal = args.shape.causal, threshold = args.mask.threshold;
  float scale = args.shape.scale;
  u32 warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  __shared__ __align__(16) u32 key_tile[ROWS][STRIDE], query_tile[QUERIES][STRIDE], dout_tile[QUERIES][STRIDE];
  __shared__ __align__(16) u32 ds_tile[ROWS][QUERIES + 8];
  __shared__ float2 of_query[QUERIES];  // log of its total, and its dot product
  u64 width = (u64)heads * D, place = at.q_row * width + at.head * D, number = at.q_row * heads + at.head;
  const float* q = (const float*)args.q + at.q_row * args.q_stride + at.head * D;
  const float* k = (const float*)args.k + at.k_row * args.k_stride + at.head * D;
  const float* v = (const float*)args.v + at.k_row * args.k_stride + at.head * D;
  const float *out = (const float*)args.out + place, *dout = (const float*)args.dout + place;
  const float* logs = args.logs + number;
  float *sums = args.sums + place, *products = args.products + number;
  float* dq = (float*)args.dq + at.q_row * args.dq_stride + at.head * D;
  float* dk = (float*)args.dk + at.k_row * args.dk_stride + at.head * D;
  float* dv = (float*)args.dv + at.k_row * args.dk_stride + at.head * D;
  clear_rows(dq + at.q_count * args.dq_stride, args.dq_stride, at.q_tail);
  clear_rows(dk + at.k_count * args.dk_stride, args.dk_stride, at.k_tail);
  clear_rows(dv + at.k_count * args.dk_stride, args.dk_stride, at.k_tail);
  // Four neighbouring lanes sum up a query's dot product.
  for (u32 row = threadIdx.x / 4; row < (at.q_count + 31) / 32 * 32; row += 32) {
    float product = 0;
    for (u32 i = t; i < D / 4 && row < at.q_count; i += 4) {
      float4 x = *(const float4*)(out + row * width + 4 * i), y = *(const float4*)(dout + row * width + 4 * i);
      product += x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
    }
    product = quad_sum(product);
    if (t == 0 && row < at.q_count) products[row * heads] = product;
  }
  for (u32 begin = 0; begin < at.k_count; begin += ROWS) {
    u32 first = begin + warp * 16;
    __syncthreads();
    copy_rows<ROWS>(key_tile, k, args.k_stride, begin, at.k_count);
    u32 values[D / 8][4];
    load_rows(values, v, args.k_stride, first, at.k_count);
    float key_sum[D / 8][4] = {}, value_sum[D / 8][4] = {};
    for (u32 column = causal ? begin : 0; column < at.q_count; column += QUERIES) {
      // At the barrier after ds, all warps are done with the previous tiles.
      copy_rows<QUERIES>(query_tile, q, args.q_stride, column, at.q_count);
      copy_rows<QUERIES>(dout_tile, dout, width, column, at.q_count);
      if (threadIdx.x < QUERIES) {  // a query past the end has no weights
        u32 query = column + threadIdx.x;
        of_query[threadIdx.x] =
            query < at.q_count ? make_float2(logs[query * heads], products[query * heads]) : make_float2(3e38f, 0);
      }
      u32 mask = threshold > 0 ? key_bits(at, column + threadIdx.x % 32, first, threshold) : 0xFFFF;
      __syncthreads();
      float s[QUERIES / 8][4], d[QUERIES / 8][4];
      {
        u32 keys[D / 8][4];
        load_rows(keys, key_tile + warp * 16);
        scores<QUERIES>(s, keys, query_tile);
      }
      scores<QUERIES>(d, values, dout_tile);
      slopes<QUERIES>(s, d, of_query, mask, first, column, args);
#pragma unroll
      for (u32 n = 0; n < QUERIES / 8; ++n)
#pragma unroll
        for (u32 half = 0; half < 2; ++half)
          *(uint2*)&ds_tile[warp * 16 + g + 8 * half][n * 8 + 2 * t] =
              make_uint2(tf32(s[n][2 * half]), tf32(s[n][2 * half + 1]));
      accumulate<QUERIES>(value_sum, d, dout_tile);
      accumulate<QUERIES>(key_sum, s, query_tile);
      __syncthreads();
      bool last = begin + ROWS >= at.k_count || (causal && begin + ROWS > column);
      query_gradient(ds_tile, key_tile, sums, dq, width, args.dq_stride, column, at.q_count, begin == 0, last, scale);
    }
    store_rows(dk, args.dk_stride, key_sum, first, at.k_count, scale, scale);
    store_rows(dv, args.dk_stride, value_sum, first, at.k_count, 1, 1);
  }
}
