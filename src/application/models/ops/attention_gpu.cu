#include "application/models/ops/attention.cuh"

// bfloat16 attention after FlashAttention-2 (Dao 2023): scores stay in registers, tile by tile, and no sequence is
// padded. A warp handles 16 rows of one sequence and head, a block 64; columns are processed in shared-memory tiles.
//
// Options: D, the width of a head.
//
// Fragments of mma.m16n8k16, for lane = 4 g + t: an A (16 x 16) has rows g and g + 8, columns 2t, 2t + 1 and those + 8;
// a B (16 x 8) has rows 2t, 2t + 1 and those + 8, column g; an accumulator (16 x 8) has rows g and g + 8, columns 2t,
// 2t + 1. So the accumulators of two neighbouring tiles of 8 columns are the A of the next matmul.

#define STRIDE (D + 8)
#define PLAIN_KEYS 32
__device__ inline void mma(float* d, const u32* a, u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// Loads rows first + g and first + g + 8 of a matrix as A fragments; 0 past `count`.
__device__ inline void load_rows(u32 (*a)[4], const bf16* x, u64 stride, u32 first, u32 count) {
  u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (u32 half = 0; half < 2; ++half) {
    u32 row = first + g + 8 * half;
    const u32* from = (const u32*)(x + (u64)row * stride) + t;
#pragma unroll
    for (u32 i = 0; i < D / 16; ++i) {
      a[i][half] = row < count ? from[8 * i] : 0;
      a[i][half + 2] = row < count ? from[8 * i + 4] : 0;
    }
  }
}
// Prefetches rows [first, first + N) of a matrix for shared memory, while another tile is in use; 0 past `count`.
template <u32 N>
struct Tile {
  uint4 parts[N * (D / 8) / 128 + (N * (D / 8) % 128 != 0)];
  __device__ inline void fetch(const bf16* x, u64 stride, u32 first, u32 count) {
#pragma unroll
    for (u32 k = 0; k < sizeof(parts) / 16; ++k) {
      u32 i = threadIdx.x + 128 * k, row = i / (D / 8), part = i % (D / 8);
      parts[k] = make_uint4(0, 0, 0, 0);
      if (i < N * (D / 8) && first + row < count)
        parts[k] = *(const uint4*)(x + (u64)(first + row) * stride + part * 8);
    }
  }
  __device__ inline void put(u16 (*tile)[STRIDE]) const {
#pragma unroll
    for (u32 k = 0; k < sizeof(parts) / 16; ++k) {
      u32 i = threadIdx.x + 128 * k;
      if (i < N * (D / 8)) *(uint4*)&tile[i / (D / 8)][i % (D / 8) * 8] = parts[k];
    }
  }
};
// The B fragments of two neighbouring 8 x 8 tiles of a matrix whose rows are columns of B, or (transposed) rows of B.
__device__ inline void load_pair(u32* b, const u16* from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
               : "r"((u32)__cvta_generic_to_shared(from)));
}
__device__ inline void load_transposed_pair(u32* b, const u16* from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
               : "r"((u32)__cvta_generic_to_shared(from)));
}
// Loads 16 rows of a tile as A fragments.
__device__ inline void load_rows(u32 (*a)[4], const u16 (*tile)[STRIDE]) {
  u32 lane = threadIdx.x % 32;
#pragma unroll
  for (u32 i = 0; i < D / 16; ++i) load_pair(a[i], &tile[lane % 16][i * 16 + lane / 16 * 8]);
}
// Copies rows [first, first + N) of a matrix into shared memory asynchronously; 0 past `count`.
template <u32 N>
__device__ inline void copy_rows(u16 (*tile)[STRIDE], const bf16* x, u64 stride, u32 first, u32 count) {
#pragma unroll
  for (u32 i = threadIdx.x; i < N * (D / 8); i += 128) {
    u32 row = i / (D / 8), part = i % (D / 8), bytes = first + row < count ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"((u32)__cvta_generic_to_shared(&tile[row][part * 8])),
                   "l"(x + (u64)(bytes > 0 ? first + row : 0) * stride + part * 8), "r"(bytes)
                 : "memory");
  }
}
__device__ inline void end_of_copies() { asm volatile("cp.async.commit_group;" : : : "memory"); }
// Waits until at most the last LEFT groups of copies are pending.
template <u32 LEFT>
__device__ inline void await_copies() {
  asm volatile("cp.async.wait_group %0;" : : "n"(LEFT) : "memory");
}
// s [N / 8][4] = rows (A fragments) times the transposed tile.
template <u32 N>
__device__ inline void scores(float (*s)[4], const u32 (*a)[4], const u16 (*tile)[STRIDE]) {
  u32 lane = threadIdx.x % 32;
#pragma unroll
  for (u32 n = 0; n < N / 8; ++n)
#pragma unroll
    for (u32 e = 0; e < 4; ++e) s[n][e] = 0;
#pragma unroll
  for (u32 i = 0; i < D / 16; ++i) {
    u32 b[N / 16][4];
#pragma unroll
    for (u32 n = 0; n < N / 16; ++n)
      load_pair(b[n], &tile[(2 * n + lane / 16) * 8 + lane % 8][i * 16 + lane / 8 % 2 * 8]);
#pragma unroll
    for (u32 n = 0; n < N / 16; ++n) {
      mma(s[2 * n], a[i], b[n][0], b[n][1]);
      mma(s[2 * n + 1], a[i], b[n][2], b[n][3]);
    }
  }
}
// sum [D / 8][4] += s [16 x N] times the tile [N x D].
template <u32 N>
__device__ inline void accumulate(float (*sum)[4], const float (*s)[4], const u16 (*tile)[STRIDE]) {
  u32 lane = threadIdx.x % 32;
#pragma unroll
  for (u32 i = 0; i < N / 16; ++i) {
    u32 a[4] = {pair(s[2 * i][0], s[2 * i][1]), pair(s[2 * i][2], s[2 * i][3]), pair(s[2 * i + 1][0], s[2 * i + 1][1]),
                pair(s[2 * i + 1][2], s[2 * i + 1][3])};
    u32 b[D / 16][4];
#pragma unroll
    for (u32 n = 0; n < D / 16; ++n) load_transposed_pair(b[n], &tile[i * 16 + lane % 16][(2 * n + lane / 16) * 8]);
#pragma unroll
    for (u32 n = 0; n < D / 16; ++n) {
      mma(sum[2 * n], a, b[n][0], b[n][1]);
      mma(sum[2 * n + 1], a, b[n][2], b[n][3]);
    }
  }
}
__device__ inline void store_rows(bf16* x, u64 stride, const float (*sum)[4], u32 first, u32 count, float factor0,
                                  float factor1) {
  u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (u32 half = 0; half < 2; ++half) {
    u32 row = first + g + 8 * half;
    if (row >= count) continue;
    u32* to = (u32*)(x + (u64)row * stride) + t;
    float factor = half == 0 ? factor0 : factor1;
#pragma unroll
    for (u32 n = 0; n < D / 8; ++n) to[4 * n] = pair(sum[n][2 * half] * factor, sum[n][2 * half + 1] * factor);
  }
}
// Zeroes rows of one head.
__device__ inline void clear_rows(bf16* x, u64 stride, u32 rows) {
  for (u32 i = threadIdx.x; i < rows * (D / 8); i += 128)
    *(uint4*)(x + (u64)(i / (D / 8)) * stride + i % (D / 8) * 8) = make_uint4(0, 0, 0, 0);
}
extern "C" __global__ void __launch_bounds__(128, 4) attention_forward(AttentionForwardArgs args) {
  Sequence at = sequence_of(args.shape, args.mask);
  u32 heads = args.shape.heads, causal = args.shape.causal;
  u32 begin = blockIdx.y * ROWS, first = begin + threadIdx.x / 32 * 16;
  if (begin >= at.q_count) return;
  __shared__ __align__(16) u16 key_tile[KEYS][STRIDE], value_tile[KEYS][STRIDE];
  u64 width = (u64)heads * D, q_stride = args.q_stride, k_stride = args.k_stride;
  const bf16* q = (const bf16*)args.q + at.q_row * q_stride + at.head * D;
  const bf16* k = (const bf16*)args.k + at.k_row * k_stride + at.head * D;
  const bf16* v = (const bf16*)args.v + at.k_row * k_stride + at.head * D;
  bf16* out = (bf16*)args.out + at.q_row * width + at.head * D;
  if (begin == 0) clear_rows(out + at.q_count * width, width, at.q_tail);
  u32 a[D / 16][4];
  load_rows(a, q, q_stride, first, at.q_count);
  float sum[D / 8][4] = {};
  Softmax softmax;
  u32 end = causal && begin + ROWS < at.k_count ? begin + ROWS : at.k_count;
  Tile<KEYS> next_keys, next_values;
  next_keys.fetch(k, k_stride, 0, at.k_count);
  next_values.fetch(v, k_stride, 0, at.k_count);
  for (u32 column = 0; column < end; column += KEYS) {
    __syncthreads();
    next_keys.put(key_tile);
    next_values.put(value_tile);
    __syncthreads();
    next_keys.fetch(k, k_stride, column + KEYS, at.k_count);
    next_values.fetch(v, k_stride, column + KEYS, at.k_count);
    float s[KEYS / 8][4];
    scores<KEYS>(s, a, key_tile);
    soften<KEYS>(s, sum, softmax, at, args, first, column);
    accumulate<KEYS>(sum, s, value_tile);
  }
  finish(softmax, at, args, first);
  store_rows(out, width, sum, first, at.q_count, 1.0f / softmax.total[0], 1.0f / softmax.total[1]);
}

// Without dropout: fewer registers, so more blocks at a time. The next tiles are copied while these are in use.
extern "C" __global__ void __launch_bounds__(128, D <= 32 ? 6 : 4) attention_forward_plain(AttentionForwardArgs args) {
  Sequence at = sequence_of(args.shape, args.mask);
  u32 heads = args.shape.heads, causal = args.shape.causal;
  u32 begin = blockIdx.y * ROWS, first = begin + threadIdx.x / 32 * 16, now = 0;
  if (begin >= at.q_count) return;
  __shared__ __align__(16) u16 key_tile[2][PLAIN_KEYS][STRIDE], value_tile[2][PLAIN_KEYS][STRIDE];
  u64 width = (u64)heads * D, q_stride = args.q_stride, k_stride = args.k_stride;
  const bf16* q = (const bf16*)args.q + at.q_row * q_stride + at.head * D;
  const bf16* k = (const bf16*)args.k + at.k_row * k_stride + at.head * D;
  const bf16* v = (const bf16*)args.v + at.k_row * k_stride + at.head * D;
  bf16* out = (bf16*)args.out + at.q_row * width + at.head * D;
  copy_rows<PLAIN_KEYS>(key_tile[0], k, k_stride, 0, at.k_count);
  copy_rows<PLAIN_KEYS>(value_tile[0], v, k_stride, 0, at.k_count);
  end_of_copies();
  if (begin == 0) clear_rows(out + at.q_count * width, width, at.q_tail);
  u32 a[D / 16][4];
  load_rows(a, q, q_stride, first, at.q_count);
  float sum[D / 8][4] = {};
  Softmax softmax;
  u32 end = causal && begin + ROWS < at.k_count ? begin + ROWS : at.k_count;
  for (u32 column = 0; column < end; column += PLAIN_KEYS, now ^= 1) {
    await_copies<0>();
    __syncthreads();  // these tiles are there, and all warps are done with the others
    if (column + PLAIN_KEYS < end) {
      copy_rows<PLAIN_KEYS>(key_tile[now ^ 1], k, k_stride, column + PLAIN_KEYS, at.k_count);
      copy_rows<PLAIN_KEYS>(value_tile[now ^ 1], v, k_stride, column + PLAIN_KEYS, at.k_count);
      end_of_copies();
    }
    if (first >= at.q_count) continue;
    float s[PLAIN_KEYS / 8][4];
    scores<PLAIN_KEYS>(s, a, key_tile[now]);
    soften<PLAIN_KEYS, false>(s, sum, softmax, at, args, first, column);
    accumulate<PLAIN_KEYS>(sum, s, value_tile[now]);
  }
  finish(softmax, at, args, first);
  store_rows(out, width, sum, first, at.q_count, 1.0f / softmax.total[0], 1.0f / softmax.total[1]);
}

// The part of the queries' gradient that a warp computes: 16 of 32 queries and half of the columns, always the same
// ones, so no other warp touches its sums.
struct QueryPart {
  u32 query, begin;
  __device__ inline QueryPart() : query(threadIdx.x / 32 % 2 * 16), begin(threadIdx.x / 64 * (D / 2)) {}
  // What the keys before have contributed.
  __device__ inline void fetch(float (*part)[4], const float* sums, u64 stride, u32 column, u32 q_count,
                               bool none) const {
    u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
      u32 row = column + query + g + 8 * half;
      const float2* sum = (const float2*)(sums + (u64)row * stride + begin) + t;
#pragma unroll
      for (u32 n = 0; n < D / 16; ++n) {
        float2 before = none || row >= q_count ? make_float2(0, 0) : sum[4 * n];
        part[n][2 * half] = before.x;
        part[n][2 * half + 1] = before.y;
      }
    }
  }
  // Adds ds [keys][queries] transposed, times the keys.
  __device__ inline void add(float (*part)[4], const u16 (*ds)[QUERIES + 8], const u16 (*keys)[STRIDE]) const {
    u32 lane = threadIdx.x % 32;
#pragma unroll
    for (u32 i = 0; i < ROWS / 16; ++i) {
      u32 a[4], b[D / 16][2];
      load_transposed_pair(a, &ds[i * 16 + lane / 16 * 8 + lane % 8][query + lane / 8 % 2 * 8]);
#pragma unroll
      for (u32 n = 0; n < D / 16; ++n) {
        u32 from = (u32)__cvta_generic_to_shared(&keys[i * 16 + lane % 16][begin + n * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                     : "=r"(b[n][0]), "=r"(b[n][1])
                     : "r"(from));
      }
#pragma unroll
      for (u32 n = 0; n < D / 16; ++n) mma(part[n], a, b[n][0], b[n][1]);
    }
  }
  __device__ inline void put(const float (*part)[4], float* sums, bf16* dq, u64 sum_stride, u64 dq_stride, u32 column,
                             u32 q_count, bool last, float scale) const {
    u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
      u32 row = column + query + g + 8 * half;
      if (row >= q_count) continue;
      float2* sum = (float2*)(sums + (u64)row * sum_stride + begin) + t;
      u32* to = (u32*)(dq + (u64)row * dq_stride + begin) + t;
#pragma unroll
      for (u32 n = 0; n < D / 16; ++n) {
        if (last) {
          to[4 * n] = pair(part[n][2 * half] * scale, part[n][2 * half + 1] * scale);
        } else {
          sum[4 * n] = make_float2(part[n][2 * half], part[n][2 * half + 1]);
        }
      }
    }
  }
};

// A block takes a whole sequence and head: 64 keys at a time, for which it loops over the queries in tiles of 32. It
// keeps the dot products of each query's output and gradient, and partial gradients of queries, in its own global
// memory.
extern "C" __global__ void __launch_bounds__(128, 3) attention_gradient(AttentionGradientArgs args) {
  Sequence at = sequence_of(args.shape, args.mask);
  u32 heads = args.shape.heads, causal = args.shape.causal, threshold = args.mask.threshold;
  float scale = args.shape.scale;
  u32 warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  __shared__ __align__(16) u16 key_tile[ROWS][STRIDE], value_tile[ROWS][STRIDE];
  __shared__ __align__(16) u16 query_tile[2][QUERIES][STRIDE], dout_tile[2][QUERIES][STRIDE];
  __shared__ __align__(16) u16 ds_tile[ROWS][QUERIES + 8];
  __shared__ float2 of_query[QUERIES];  // log of its total, and its dot product
  u64 width = (u64)heads * D, place = at.q_row * width + at.head * D, number = at.q_row * heads + at.head;
  const bf16* q = (const bf16*)args.q + at.q_row * args.q_stride + at.head * D;
  const bf16* k = (const bf16*)args.k + at.k_row * args.k_stride + at.head * D;
  const bf16* v = (const bf16*)args.v + at.k_row * args.k_stride + at.head * D;
  const bf16 *out = (const bf16*)args.out + place, *dout = (const bf16*)args.dout + place;
  const float* logs = args.logs + number;
  float *sums = args.sums + place, *products = args.products + number;
  bf16* dq = (bf16*)args.dq + at.q_row * args.dq_stride + at.head * D;
  bf16* dk = (bf16*)args.dk + at.k_row * args.dk_stride + at.head * D;
  bf16* dv = (bf16*)args.dv + at.k_row * args.dk_stride + at.head * D;
  clear_rows(dq + at.q_count * args.dq_stride, args.dq_stride, at.q_tail);
  clear_rows(dk + at.k_count * args.dk_stride, args.dk_stride, at.k_tail);
  clear_rows(dv + at.k_count * args.dk_stride, args.dk_stride, at.k_tail);
  // Four neighbouring lanes sum up a query's dot product.
  for (u32 row = threadIdx.x / 4; row < (at.q_count + 31) / 32 * 32; row += 32) {
    float product = 0;
    for (u32 i = t; i < D / 8 && row < at.q_count; i += 4) {
      uint4 x = *(const uint4*)(out + row * width + 8 * i), y = *(const uint4*)(dout + row * width + 8 * i);
      product += low_of(x.x) * low_of(y.x) + high_of(x.x) * high_of(y.x) + low_of(x.y) * low_of(y.y) +
                 high_of(x.y) * high_of(y.y) + low_of(x.z) * low_of(y.z) + high_of(x.z) * high_of(y.z) +
                 low_of(x.w) * low_of(y.w) + high_of(x.w) * high_of(y.w);
    }
    product = quad_sum(product);
    if (t == 0 && row < at.q_count) products[row * heads] = product;
  }
  QueryPart query_part;
  for (u32 begin = 0; begin < at.k_count; begin += ROWS) {
    u32 first = begin + warp * 16, start = causal ? begin : 0, now = 0;
    __syncthreads();
    copy_rows<ROWS>(key_tile, k, args.k_stride, begin, at.k_count);
    copy_rows<ROWS>(value_tile, v, args.k_stride, begin, at.k_count);
    copy_rows<QUERIES>(query_tile[0], q, args.q_stride, start, at.q_count);
    copy_rows<QUERIES>(dout_tile[0], dout, width, start, at.q_count);
    end_of_copies();
    float2 query_numbers = make_float2(3e38f, 0);  // a query past the end has no weights
    if (threadIdx.x < QUERIES && start + threadIdx.x < at.q_count)
      query_numbers = make_float2(logs[(start + threadIdx.x) * heads], products[(start + threadIdx.x) * heads]);
    float key_sum[D / 8][4] = {}, value_sum[D / 8][4] = {};
    for (u32 column = start; column < at.q_count; column += QUERIES, now ^= 1) {
      // At the barrier after ds, all warps are done with the other tiles.
      if (column + QUERIES < at.q_count) {
        copy_rows<QUERIES>(query_tile[now ^ 1], q, args.q_stride, column + QUERIES, at.q_count);
        copy_rows<QUERIES>(dout_tile[now ^ 1], dout, width, column + QUERIES, at.q_count);
      }
      end_of_copies();
      if (threadIdx.x < QUERIES) {
        of_query[threadIdx.x] = query_numbers;
        u32 query = column + QUERIES + threadIdx.x;
        query_numbers =
            query < at.q_count ? make_float2(logs[query * heads], products[query * heads]) : make_float2(3e38f, 0);
      }
      u32 mask = threshold > 0 ? key_bits(at, column + threadIdx.x % 32, first, threshold) : 0xFFFF;
      await_copies<1>();
      __syncthreads();
      float s[QUERIES / 8][4], d[QUERIES / 8][4];
      u32 a[D / 16][4];
      load_rows(a, key_tile + warp * 16);
      scores<QUERIES>(s, a, query_tile[now]);
      load_rows(a, value_tile + warp * 16);
      scores<QUERIES>(d, a, dout_tile[now]);
      slopes<QUERIES>(s, d, of_query, mask, first, column, args);
#pragma unroll
      for (u32 n = 0; n < QUERIES / 8; ++n)
#pragma unroll
        for (u32 half = 0; half < 2; ++half)
          *(u32*)&ds_tile[warp * 16 + g + 8 * half][n * 8 + 2 * t] = pair(s[n][2 * half], s[n][2 * half + 1]);
      accumulate<QUERIES>(value_sum, d, dout_tile[now]);
      accumulate<QUERIES>(key_sum, s, query_tile[now]);
      float part[D / 16][4];
      query_part.fetch(part, sums, width, column, at.q_count, begin == 0);
      __syncthreads();
      bool last = begin + ROWS >= at.k_count || (causal && begin + ROWS > column);
      query_part.add(part, ds_tile, key_tile);
      query_part.put(part, sums, dq, width, args.dq_stride, column, at.q_count, last, scale);
    }
    store_rows(dk, args.dk_stride, key_sum, first, at.k_count, scale, scale);
    store_rows(dv, args.dk_stride, value_sum, first, at.k_count, 1, 1);
  }
}
