#pragma once

/// For hot loops over plain memory. CHORUS_BEST_INSTRUCTIONS before a function compiles it for several instruction sets
/// and picks the best at run time. Loops between CHORUS_FAST_LOOPS and CHORUS_END_OF_FAST_LOOPS are vectorized when
/// they call only functions defined there (or builtins: __builtin_sqrtf, not std::sqrt) and reduce into an array of
/// partial sums instead of one scalar.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define CHORUS_BEST_INSTRUCTIONS __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#define CHORUS_FAST_LOOPS _Pragma("GCC push_options") _Pragma("GCC optimize(\"O3\")")
#define CHORUS_END_OF_FAST_LOOPS _Pragma("GCC pop_options")
#else
#define CHORUS_BEST_INSTRUCTIONS
#define CHORUS_FAST_LOOPS
#define CHORUS_END_OF_FAST_LOOPS
#endif
