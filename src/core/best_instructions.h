#pragma once

/// Before a function: compiled for several instruction sets, the best of which is taken at run time. Its loops become
/// vector code when they have no calls and no sums over neighbours; sums go over an array of partial sums (kLanes).
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define CHORUS_BEST_INSTRUCTIONS \
  __attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3", "no-math-errno")))
#else
#define CHORUS_BEST_INSTRUCTIONS
#endif
