#pragma once

#include "application/models/ops/attention_args.h"
#include "application/models/ops/dropout.cuh"

// Shared by the attention kernels of both element types: sequences, dropout masks, the running softmax. An mma
// accumulator (16 x 8) holds, for lane = 4 g + t, rows g and g + 8, columns 2t and 2t + 1.

#define ROWS kAttentionRows
#define QUERIES 32
#define KEYS 32
struct Sequence {
  u64 q_row, k_row;  // of the first token
  u32 q_count, k_count, head;
  u32 q_tail, k_tail;  // rows after it that belong to no sequence
  u64 mask_key, mask_group;
};
// 2^x; scores are in units of log2.
__device__ inline float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
#define LOG2E 1.4426950408889634f
__device__ inline float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
__device__ inline float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ inline Sequence sequence_of(const AttentionShape& shape, const MaskArgs& mask) {
  const i64* places = shape.places;
  u32 heads = shape.heads;
  u32 all = gridDim.x / heads, n = (u32)places[6 * all + blockIdx.x / heads];
  Sequence s;
  s.head = blockIdx.x % heads;
  s.q_row = places[2 * all + n];
  s.k_row = places[3 * all + n];
  s.q_count = (u32)places[4 * all + n];
  s.k_count = (u32)places[5 * all + n];
  s.q_tail = (u32)((n + 1 < all ? places[2 * all + n + 1] : shape.q_rows) - s.q_row) - s.q_count;
  s.k_tail = (u32)((n + 1 < all ? places[3 * all + n + 1] : shape.k_rows) - s.k_row) - s.k_count;
  s.mask_key = mask_key(mask, (u32)places[n]);
  s.mask_group = (((u64)places[all + n] * heads + s.head) << 32) / 4;
  return s;
}
__device__ inline u64 mask_bits(const Sequence& s, u32 query, u32 key) {
  return mask_hash(s.mask_key, s.mask_group + ((u64)query << 14) + key / 4);
}
// The mask bits of rows first + g and first + g + 8 for this lane's two columns, 16 each. Two neighbouring lanes need
// different halves of the same hashes, so each computes the hash of one row.
__device__ inline void row_bits(u32* bits, const Sequence& s, u32 first, u32 key) {
  u32 odd = threadIdx.x % 2, row = first + threadIdx.x % 32 / 4 + 8 * odd;
  u64 both = mask_bits(s, row, key);
  u32 mine = odd ? (u32)(both >> 32) : (u32)both;
  u32 other = __shfl_xor_sync(0xffffffffu, odd ? (u32)both : (u32)(both >> 32), 1);
  bits[0] = odd ? other : mine;
  bits[1] = odd ? mine : other;
}
// Which of the warp's 16 keys each lane's query keeps: one bit per key.
__device__ inline u32 key_bits(const Sequence& s, u32 query, u32 first, u32 threshold) {
  u32 result = 0;
#pragma unroll
  for (u32 i = 0; i < 4; ++i) {
    u64 hash = mask_bits(s, query, first + 4 * i);
    u32 low = (u32)hash, high = (u32)(hash >> 32);
    result |= ((low & 0xFFFF) >= threshold ? 1u << 4 * i : 0) | (low >> 16 >= threshold ? 2u << 4 * i : 0) |
              ((high & 0xFFFF) >= threshold ? 4u << 4 * i : 0) | (high >> 16 >= threshold ? 8u << 4 * i : 0);
  }
  return result;
}
__device__ inline bool seen(const Sequence& s, u32 query, u32 key, u32 causal) {
  return query < s.q_count && key < s.k_count && (!causal || key <= query);
}

// The running softmax of rows g and g + 8 over the keys so far.
struct Softmax {
  float top[2] = {-3e38f, -3e38f}, total[2] = {0, 0};
};

// Turns the scores s [N / 8][4] of the rows at `first` and the keys at `column` into weights after dropout, not yet
// divided by their totals; rescales the sums so far. MASKED: whether there may be dropout.
template <u32 N, bool MASKED = true>
__device__ inline void soften(float (*s)[4], float (*sum)[4], Softmax& softmax, const Sequence& at,
                              const AttentionForwardArgs& args, u32 first, u32 column) {
  u32 causal = args.shape.causal, threshold = MASKED ? args.mask.threshold : 0;
  u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  float unit = args.shape.scale * LOG2E, keep = args.mask.scale;
  u32 bits[N / 8][2];
  if (column + N > at.k_count || causal) {
#pragma unroll
    for (u32 n = 0; n < N / 8; ++n)
#pragma unroll
      for (u32 e = 0; e < 4; ++e)
        if (!seen(at, first + g + 8 * (e / 2), column + n * 8 + 2 * t + e % 2, causal)) s[n][e] = -3e38f;
  }
#pragma unroll
  for (u32 n = 0; n < N / 8; ++n)
    if (threshold > 0) row_bits(bits[n], at, first, column + n * 8 + 2 * t);
#pragma unroll
  for (u32 half = 0; half < 2; ++half) {
    float most = softmax.top[half];
#pragma unroll
    for (u32 n = 0; n < N / 8; ++n) most = fmaxf(most, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
    most = quad_max(most);
    float shrink = power_of_two((softmax.top[half] - most) * unit), part = 0, shift = most * unit;
    softmax.top[half] = most;
#pragma unroll
    for (u32 n = 0; n < N / 8; ++n) {
      float low = power_of_two(s[n][2 * half] * unit - shift), high = power_of_two(s[n][2 * half + 1] * unit - shift);
      part += low + high;
      if (threshold > 0) {
        low = (bits[n][half] & 0xFFFF) < threshold ? 0 : low * keep;
        high = bits[n][half] >> 16 < threshold ? 0 : high * keep;
      }
      s[n][2 * half] = low;
      s[n][2 * half + 1] = high;
    }
    softmax.total[half] = softmax.total[half] * shrink + part;
#pragma unroll
    for (u32 n = 0; n < D / 8; ++n) {
      sum[n][2 * half] *= shrink;
      sum[n][2 * half + 1] *= shrink;
    }
  }
}

// After the last key: the totals of whole rows, and their logs if there will be a backward pass.
__device__ inline void finish(Softmax& softmax, const Sequence& at, const AttentionForwardArgs& args, u32 first) {
  u32 heads = args.shape.heads, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  float unit = args.shape.scale * LOG2E;
#pragma unroll
  for (u32 half = 0; half < 2; ++half) {
    softmax.total[half] = quad_sum(softmax.total[half]);
    u32 row = first + g + 8 * half;
    if (args.logs != 0 && t == 0 && row < at.q_count) {
      args.logs[(at.q_row + row) * heads + at.head] = softmax.top[half] * unit + __log2f(softmax.total[half]);
    }
  }
}

// Scores s [N / 8][4] of the keys at `first` and the queries at `column`, and the gradients d of their weights, become
// the gradients of the scores (s) and the weights after dropout (d). of_query: log of a query's total, and the dot
// product of its output and its gradient. kept: key_bits of this lane's query.
template <u32 N>
__device__ inline void slopes(float (*s)[4], float (*d)[4], const float2* of_query, u32 kept, u32 first, u32 column,
                              const AttentionGradientArgs& args) {
  u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  float unit = args.shape.scale * LOG2E, keep = args.mask.threshold == 0 ? 1 : args.mask.scale;
#pragma unroll
  for (u32 n = 0; n < N / 8; ++n) {
#pragma unroll
    for (u32 odd = 0; odd < 2; ++odd) {
      u32 place = n * 8 + 2 * t + odd, kept_keys = __shfl_sync(0xffffffffu, kept, place) >> g;
      float2 query = of_query[place];
#pragma unroll
      for (u32 e = odd; e < 4; e += 2) {
        // At most 1: keys past the end have score 0.
        float weight = power_of_two(fminf(s[n][e] * unit - query.x, 0));
        if (args.shape.causal && first + g + 4 * (e - odd) > column + place) weight = 0;
        float factor = kept_keys >> 4 * (e - odd) & 1 ? keep : 0;
        s[n][e] = weight * (d[n][e] * factor - query.y);
        d[n][e] = weight * factor;
      }
    }
  }
}
