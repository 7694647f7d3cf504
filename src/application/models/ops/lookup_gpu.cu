#include "application/models/ops/lookup_args.h"
#include "core/device/kernel_prelude.cuh"

// Options: ELEMENT. Gradients of looked-up table rows; blockIdx.y is the client.

typedef ELEMENT T;

// A thread sums neighbouring tokens with the same id before it writes.
extern "C" __global__ void lookup_gradient(LookupGradientArgs a) {
  u32 client = blockIdx.y, begin = blockIdx.x * kLookupChunk, width = a.width;
  u32 end = begin + kLookupChunk < a.tokens ? begin + kLookupChunk : a.tokens;
  const i64* ids = a.ids + (u64)client * a.tokens;
  const T* dy = (const T*)a.dy + (u64)client * a.tokens * width;
  float* table = a.tables + client * a.stride;
  for (u32 k = threadIdx.x; k < width; k += blockDim.x) {
    float sum = 0;
    for (u32 t = begin; t < end; ++t) {
      sum += load(dy, (u64)t * width + k);
      if (t + 1 < end && ids[t + 1] == ids[t]) continue;
      if (ids[t] != a.padding && sum != 0) atomicAdd(table + ids[t] * width + k, sum);
      sum = 0;
    }
  }
}

// A block sorts 32 tokens, one per lane: their index among all tokens is the number of tokens before them. Each of its
// 8 warps counts its own pieces of 128 tokens.
extern "C" __global__ void __launch_bounds__(256) sort_tokens(SortTokensArgs a) {
  __shared__ int4 others[8][32];
  __shared__ u32 counts[8][32];
  u32 client = blockIdx.y, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  u32 first = blockIdx.x * 32, token = first + lane, count = 0;
  const i64* ids = a.ids + (u64)client * a.tokens;
  i32 mine = token < a.tokens ? (i32)ids[token] : 0;
  for (u32 begin = warp * 128; begin < a.tokens; begin += 8 * 128) {
    i32 v[4];
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
      u32 at = begin + 4 * lane + j;
      v[j] = at < a.tokens ? (i32)ids[at] : 0x7fffffff;
    }
    __syncwarp();
    others[warp][lane] = make_int4(v[0], v[1], v[2], v[3]);
    __syncwarp();
    if (begin + 128 <= first || begin >= first + 32) {
      i32 below = begin < first ? mine + 1 : mine;  // equal ids: the earlier token comes first
#pragma unroll 8
      for (u32 i = 0; i < 32; ++i) {
        int4 o = others[warp][i];
        count += (o.x < below) + (o.y < below) + (o.z < below) + (o.w < below);
      }
    } else {
      for (u32 i = 0; i < 32; ++i) {
        int4 o = others[warp][i];
        u32 at = begin + 4 * i;
        count += (o.x < mine + (at < token)) + (o.y < mine + (at + 1 < token)) + (o.z < mine + (at + 2 < token)) +
                 (o.w < mine + (at + 3 < token));
      }
    }
  }
  counts[warp][lane] = count;
  __syncthreads();
  if (warp > 0 || token >= a.tokens) return;
  for (u32 w = 1; w < 8; ++w) count += counts[w][lane];
  a.order[(u64)client * a.tokens + count] = (i32)token;
}

// A block takes a chunk of the sorted tokens, a thread some columns of it.
extern "C" __global__ void __launch_bounds__(256) sorted_lookup_gradient(SortedLookupArgs a) {
  __shared__ i32 from[kLookupChunk];
  __shared__ i64 id[kLookupChunk + 2];  // with one neighbour on either side; -1: none
  u32 client = blockIdx.y, begin = blockIdx.x * kLookupChunk, width = a.width;
  u32 count = begin + kLookupChunk < a.tokens ? kLookupChunk : a.tokens - begin;
  const i64* ids = a.ids + (u64)client * a.tokens;
  const i32* order = a.order + (u64)client * a.tokens;
  for (u32 i = threadIdx.x; i < count + 2; i += blockDim.x) {
    u32 place = begin + i - 1;  // for the first element of the first chunk: past all tokens
    id[i] = place < a.tokens ? ids[order[place]] : -1;
    if (i > 0 && i <= count) from[i - 1] = order[place];
  }
  __syncthreads();
  const T* dy = (const T*)a.dy + (u64)client * a.tokens * width;
  float* table = a.tables + client * a.stride;
  float* parts = a.parts + ((u64)client * gridDim.x + blockIdx.x) * 2 * width;
  for (u32 k = threadIdx.x; k < width; k += blockDim.x) {
    float sum = 0;
    bool begun_before = id[0] == id[1];
    for (u32 group = 0; group < count; group += 8) {
      float v[8];  // loaded at once
#pragma unroll
      for (u32 i = 0; i < 8; ++i) v[i] = group + i < count ? load(dy, (u64)from[group + i] * width + k) : 0.0f;
#pragma unroll
      for (u32 j = 0; j < 8; ++j) {
        u32 i = group + j;
        if (i >= count) break;
        sum += v[j];
        i64 mine = id[i + 1];
        if (i + 1 < count && id[i + 2] == mine) continue;
        bool goes_on = i + 1 == count && id[count + 1] == mine;
        if (begun_before) {
          parts[k] = sum;
        } else if (goes_on) {
          parts[width + k] = sum;
        } else if (mine != a.padding) {
          table[mine * width + k] += sum;
        }
        sum = 0;
        begun_before = false;
      }
    }
  }
}

// If an id continues past the chunk in which it begins, that chunk's block sums its parts.
extern "C" __global__ void __launch_bounds__(256) sorted_lookup_rest(SortedLookupArgs a) {
  u32 client = blockIdx.y, end = (blockIdx.x + 1) * kLookupChunk, width = a.width;
  if (end >= a.tokens) return;
  const i64* ids = a.ids + (u64)client * a.tokens;
  const i32* order = a.order + (u64)client * a.tokens;
  i64 mine = ids[order[end - 1]];
  bool begun_before = end > kLookupChunk && ids[order[end - kLookupChunk - 1]] == mine;
  if (mine == a.padding || begun_before || ids[order[end]] != mine) return;
  u32 chunks = 1;  // chunks in which the id continues: those that begin with it
  for (u32 next = blockIdx.x + 2; next * kLookupChunk < a.tokens; next += blockDim.x) {
    u64 place = (u64)(next + threadIdx.x) * kLookupChunk;
    u32 more = __syncthreads_count(place < a.tokens && ids[order[place]] == mine);
    chunks += more;
    if (more < blockDim.x) break;
  }
  const float* parts = a.parts + ((u64)client * gridDim.x + blockIdx.x) * 2 * width;
  float* row = a.tables + client * a.stride + mine * width;
  for (u32 k = threadIdx.x; k < width; k += blockDim.x) {
    float sum = parts[width + k];
#pragma unroll 8
    for (u32 c = 1; c <= chunks; ++c) sum += parts[(u64)c * 2 * width + k];
    row[k] += sum;
  }
}
