#pragma once

namespace chorus {

/// After FlashAttention-2 (Dao, 2023): scores live in registers, tile by tile, and no sequence is padded. A block takes
/// 64 rows of one sequence and head, a warp 16 of them; columns pass by in tiles of shared memory. D is a head's width.
///
/// Fragments of mma.m16n8k16, for lane = 4 g + t: an A (16 x 16) has rows g and g + 8, columns 2t, 2t + 1 and those +
/// 8; a B (16 x 8) has rows 2t, 2t + 1 and those + 8, column g; a sum (16 x 8) has rows g and g + 8, columns 2t, 2t
/// + 1. So the sums of two neighbouring tiles of 8 columns are the A of the next product.
inline constexpr const char* kGpuAttentionSource = R"(
#define ROWS 64
#define STRIDE (D + 8)
struct Sequence {
  u64 q_row, k_row;  // of the first token
  u32 q_count, k_count, head;
  u64 mask_key, mask_group;
};
__device__ inline void mma(float* d, const u32* a, u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline float low_of(u32 both) { return __uint_as_float(both << 16); }
__device__ inline float high_of(u32 both) { return __uint_as_float(both & 0xFFFF0000u); }
// Rows first + g and first + g + 8 of a matrix as A fragments; beyond `count` they are 0.
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
// Rows [first, first + N) of a matrix on their way into shared memory; beyond `count` they are 0. Fetched before they are
// needed, so that a tile arrives while another is worked on.
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
// s [N / 8][4] = rows (A fragments) times the tile's rows.
template <u32 N>
__device__ inline void scores(float (*s)[4], const u32 (*a)[4], const u16 (*tile)[STRIDE]) {
  u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (u32 n = 0; n < N / 8; ++n) {
    s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0;
#pragma unroll
    for (u32 i = 0; i < D / 16; ++i) {
      const u32* from = (const u32*)&tile[n * 8 + g][i * 16] + t;
      mma(s[n], a[i], from[0], from[4]);
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
#pragma unroll
    for (u32 n = 0; n < D / 8; ++n) {
      u32 b0, b1, from = (u32)__cvta_generic_to_shared(&tile[i * 16 + lane % 16][n * 8]);
      asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(b0), "=r"(b1) : "r"(from));
      mma(sum[n], a, b0, b1);
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
__device__ inline float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
__device__ inline float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
// places [6, N]: of a sequence its client, its number there, the rows of its first query and key, and their counts.
__device__ inline Sequence sequence_of(const long long* places, const long long* seeds, u64 call, u32 heads,
                                       u32 threshold) {
  u32 all = gridDim.x / heads, n = blockIdx.x / heads;
  Sequence s;
  s.head = blockIdx.x % heads;
  s.q_row = places[2 * all + n];
  s.k_row = places[3 * all + n];
  s.q_count = (u32)places[4 * all + n];
  s.k_count = (u32)places[5 * all + n];
  s.mask_key = threshold > 0 ? key_of(seeds, (u32)places[n], call) : 0;
  s.mask_group = (((u64)places[all + n] * heads + s.head) << 32) / 4;
  return s;
}
__device__ inline u64 mask_bits(const Sequence& s, u32 query, u32 key) {
  return mask_hash(s.mask_key, s.mask_group + ((u64)query << 14) + key / 4);
}
// The bits of rows first + g and first + g + 8 for this lane's columns, of which two neighbouring lanes have the same: each
// makes those of one row.
__device__ inline void row_bits(u64* bits, const Sequence& s, u32 first, u32 key) {
  u32 odd = threadIdx.x % 2, row = first + threadIdx.x % 32 / 4 + 8 * odd;
  u64 mine = mask_bits(s, row, key), other = __shfl_xor_sync(0xffffffffu, mine, 1);
  bits[0] = odd ? other : mine;
  bits[1] = odd ? mine : other;
}
__device__ inline bool seen(const Sequence& s, u32 query, u32 key, u32 causal) {
  return query < s.q_count && key < s.k_count && (!causal || key <= query);
}

extern "C" __global__ void __launch_bounds__(128)
attention_forward(const bf16* q, u64 q_stride, const bf16* k, const bf16* v, u64 k_stride, bf16* out, float* logs,
                  const long long* places, const long long* seeds, u64 call, u32 heads, u32 causal, float scale,
                  u32 threshold, float keep) {
  Sequence at = sequence_of(places, seeds, call, heads, threshold);
  u32 begin = blockIdx.y * ROWS, first = begin + threadIdx.x / 32 * 16, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  if (begin >= at.q_count) return;
  __shared__ __align__(16) u16 key_tile[64][STRIDE], value_tile[64][STRIDE];
  q += at.q_row * q_stride + at.head * D;
  k += at.k_row * k_stride + at.head * D;
  v += at.k_row * k_stride + at.head * D;
  u32 a[D / 16][4];
  load_rows(a, q, q_stride, first, at.q_count);
  float sum[D / 8][4] = {}, top[2] = {-3e38f, -3e38f}, total[2] = {};
  u32 end = causal && begin + ROWS < at.k_count ? begin + ROWS : at.k_count;
  Tile<64> next_keys, next_values;
  next_keys.fetch(k, k_stride, 0, at.k_count);
  next_values.fetch(v, k_stride, 0, at.k_count);
  for (u32 column = 0; column < end; column += 64) {
    __syncthreads();
    next_keys.put(key_tile);
    next_values.put(value_tile);
    __syncthreads();
    next_keys.fetch(k, k_stride, column + 64, at.k_count);
    next_values.fetch(v, k_stride, column + 64, at.k_count);
    float s[8][4];
    u64 bits[8][2];
    scores<64>(s, a, key_tile);
#pragma unroll
    for (u32 n = 0; n < 8; ++n)
      if (threshold > 0) row_bits(bits[n], at, first, column + n * 8 + 2 * t);
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
      u32 row = first + g + 8 * half;
      float most = top[half];
#pragma unroll
      for (u32 n = 0; n < 8; ++n)
#pragma unroll
        for (u32 e = 2 * half; e < 2 * half + 2; ++e) {
          s[n][e] = seen(at, row, column + n * 8 + 2 * t + e % 2, causal) ? s[n][e] * scale : -3e38f;
          most = fmaxf(most, s[n][e]);
        }
      most = quad_max(most);
      float shrink = __expf(top[half] - most), part = 0;
      top[half] = most;
#pragma unroll
      for (u32 n = 0; n < 8; ++n) {
#pragma unroll
        for (u32 e = 2 * half; e < 2 * half + 2; ++e) {
          float weight = s[n][e] > -2e38f ? __expf(s[n][e] - most) : 0.0f;
          part += weight;
          s[n][e] = threshold > 0 ? weight * kept(bits[n][half], (2 * t + e % 2) % 4, threshold, keep) : weight;
        }
      }
      total[half] = total[half] * shrink + part;
#pragma unroll
      for (u32 n = 0; n < D / 8; ++n) {
        sum[n][2 * half] *= shrink;
        sum[n][2 * half + 1] *= shrink;
      }
    }
    accumulate<64>(sum, s, value_tile);
  }
#pragma unroll
  for (u32 half = 0; half < 2; ++half) total[half] = quad_sum(total[half]);
  u64 width = (u64)heads * D;
  store_rows(out + at.q_row * width + at.head * D, width, sum, first, at.q_count, 1.0f / total[0], 1.0f / total[1]);
  if (t != 0) return;
#pragma unroll
  for (u32 half = 0; half < 2; ++half) {
    u32 row = first + g + 8 * half;
    if (row < at.q_count) logs[(at.q_row + row) * heads + at.head] = top[half] + __logf(total[half]);
  }
}

// The gradient of the queries; and of each query the product of its output and that one's gradient.
extern "C" __global__ void __launch_bounds__(128, 3)
attention_query_gradient(const bf16* q, u64 q_stride, const bf16* k, const bf16* v, u64 k_stride, const bf16* out,
                         const bf16* dout, const float* logs, float* products, bf16* dq, u64 dq_stride,
                         const long long* places, const long long* seeds, u64 call, u32 heads, u32 causal, float scale,
                         u32 threshold, float keep) {
  Sequence at = sequence_of(places, seeds, call, heads, threshold);
  u32 begin = blockIdx.y * ROWS, first = begin + threadIdx.x / 32 * 16, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  if (begin >= at.q_count) return;
  __shared__ __align__(16) u16 key_tile[32][STRIDE], value_tile[32][STRIDE];
  u64 width = (u64)heads * D, place = at.q_row * width + at.head * D;
  q += at.q_row * q_stride + at.head * D;
  k += at.k_row * k_stride + at.head * D;
  v += at.k_row * k_stride + at.head * D;
  u32 a[D / 16][4], b[D / 16][4];
  load_rows(a, out + place, width, first, at.q_count);
  load_rows(b, dout + place, width, first, at.q_count);
  float log[2], product[2] = {};
#pragma unroll
  for (u32 i = 0; i < D / 16; ++i)
#pragma unroll
    for (u32 e = 0; e < 4; ++e)
      product[e % 2] += low_of(a[i][e]) * low_of(b[i][e]) + high_of(a[i][e]) * high_of(b[i][e]);
#pragma unroll
  for (u32 half = 0; half < 2; ++half) {
    u32 row = first + g + 8 * half;
    u64 number = (at.q_row + row) * heads + at.head;
    product[half] = quad_sum(product[half]);
    log[half] = row < at.q_count ? logs[number] : 0;
    if (t == 0 && row < at.q_count) products[number] = product[half];
  }
  load_rows(a, q, q_stride, first, at.q_count);
  float sum[D / 8][4] = {};
  u32 end = causal && begin + ROWS < at.k_count ? begin + ROWS : at.k_count;
  Tile<32> next_keys, next_values;
  next_keys.fetch(k, k_stride, 0, at.k_count);
  next_values.fetch(v, k_stride, 0, at.k_count);
  for (u32 column = 0; column < end; column += 32) {
    __syncthreads();
    next_keys.put(key_tile);
    next_values.put(value_tile);
    __syncthreads();
    next_keys.fetch(k, k_stride, column + 32, at.k_count);
    next_values.fetch(v, k_stride, column + 32, at.k_count);
    float s[4][4], d[4][4];
    u64 bits[4][2];
    scores<32>(s, a, key_tile);
    scores<32>(d, b, value_tile);
#pragma unroll
    for (u32 n = 0; n < 4; ++n)
      if (threshold > 0) row_bits(bits[n], at, first, column + n * 8 + 2 * t);
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
      u32 row = first + g + 8 * half;
#pragma unroll
      for (u32 n = 0; n < 4; ++n) {
#pragma unroll
        for (u32 e = 2 * half; e < 2 * half + 2; ++e) {
          float weight = seen(at, row, column + n * 8 + 2 * t + e % 2, causal) ? __expf(s[n][e] * scale - log[half]) : 0;
          if (threshold > 0) d[n][e] *= kept(bits[n][half], (2 * t + e % 2) % 4, threshold, keep);
          s[n][e] = weight * (d[n][e] - product[half]) * scale;
        }
      }
    }
    accumulate<32>(sum, s, key_tile);
  }
  store_rows(dq + at.q_row * dq_stride + at.head * D, dq_stride, sum, first, at.q_count, 1, 1);
}

extern "C" __global__ void __launch_bounds__(128, 3)
attention_key_gradient(const bf16* q, u64 q_stride, const bf16* k, const bf16* v, u64 k_stride, const bf16* dout,
                       const float* logs, const float* products, bf16* dk, bf16* dv, u64 dk_stride,
                       const long long* places, const long long* seeds, u64 call, u32 heads, u32 causal, float scale,
                       u32 threshold, float keep) {
  Sequence at = sequence_of(places, seeds, call, heads, threshold);
  u32 begin = blockIdx.y * ROWS, first = begin + threadIdx.x / 32 * 16, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  if (begin >= at.k_count) return;
  __shared__ __align__(16) u16 query_tile[32][STRIDE], dout_tile[32][STRIDE];
  __shared__ u64 mask[4][4][32];  // of a warp's 16 keys, four at a time, and the tile's queries
  __shared__ float log_tile[32], product_tile[32];
  u64 width = (u64)heads * D;
  q += at.q_row * q_stride + at.head * D;
  k += at.k_row * k_stride + at.head * D;
  v += at.k_row * k_stride + at.head * D;
  dout += at.q_row * width + at.head * D;
  u32 a[D / 16][4], b[D / 16][4];
  load_rows(a, k, k_stride, first, at.k_count);
  load_rows(b, v, k_stride, first, at.k_count);
  float key_sum[D / 8][4] = {}, value_sum[D / 8][4] = {};
  u32 start = causal ? begin : 0;
  Tile<32> next_queries, next_douts;
  next_queries.fetch(q, q_stride, start, at.q_count);
  next_douts.fetch(dout, width, start, at.q_count);
  for (u32 column = start; column < at.q_count; column += 32) {
    __syncthreads();
    next_queries.put(query_tile);
    next_douts.put(dout_tile);
    if (threadIdx.x < 32 && column + threadIdx.x < at.q_count) {
      u64 number = (at.q_row + column + threadIdx.x) * heads + at.head;
      log_tile[threadIdx.x] = logs[number];
      product_tile[threadIdx.x] = products[number];
    }
    if (threshold > 0) {
      for (u32 i = 0; i < 4; ++i)
        mask[threadIdx.x / 32][i][threadIdx.x % 32] = mask_bits(at, column + threadIdx.x % 32, first + 4 * i);
    }
    __syncthreads();
    next_queries.fetch(q, q_stride, column + 32, at.q_count);
    next_douts.fetch(dout, width, column + 32, at.q_count);
    float s[4][4], d[4][4];
    scores<32>(s, a, query_tile);
    scores<32>(d, b, dout_tile);
#pragma unroll
    for (u32 n = 0; n < 4; ++n)
#pragma unroll
      for (u32 e = 0; e < 4; ++e) {
        u32 place = n * 8 + 2 * t + e % 2, query = column + place, row = first + g + 8 * (e / 2);
        bool is_seen = seen(at, query, row, causal);
        float weight = is_seen ? __expf(s[n][e] * scale - log_tile[place]) : 0, factor = 1.0f;
        if (threshold > 0) factor = kept(mask[threadIdx.x / 32][(g + 8 * (e / 2)) / 4][place], g % 4, threshold, keep);
        s[n][e] = is_seen ? weight * (d[n][e] * factor - product_tile[place]) * scale : 0;
        d[n][e] = weight * factor;
      }
    accumulate<32>(value_sum, d, dout_tile);
    accumulate<32>(key_sum, s, query_tile);
  }
  store_rows(dk + at.k_row * dk_stride + at.head * D, dk_stride, key_sum, first, at.k_count, 1, 1);
  store_rows(dv + at.k_row * dk_stride + at.head * D, dk_stride, value_sum, first, at.k_count, 1, 1);
}
)";

}  // namespace chorus
