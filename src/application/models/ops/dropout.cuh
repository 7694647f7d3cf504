#pragma once

#include "application/models/ops/dropout_args.h"
#include "core/device/kernel_prelude.cuh"

// Dropout masks, the same bits as mask_hash.h: one hash gives four neighbouring elements 16 bits each.

__device__ inline u64 mask_hash(u64 key, u64 group) {
  u64 z = key + 0x9E3779B97F4A7C15ULL * group;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}
__device__ inline u64 mask_key(const MaskArgs& mask, u32 client) {
  return mask.threshold > 0 ? mask_hash((u64)mask.seeds[client], mask.call + 1) : 0;
}
// The row of its client whose mask a row gets.
__device__ inline u64 mask_row(const MaskArgs& mask, u64 row, u32 rows) {
  return mask.rows != 0 ? (u64)mask.rows[row] : row % rows;
}
// The factor of element j of a group.
__device__ inline float kept(u64 bits, u32 j, const MaskArgs& mask) {
  return (u32)((bits >> (16 * j)) & 0xFFFF) < mask.threshold ? 0.0f : mask.scale;
}
