#pragma once

/// For loops over plain memory that must be fast. Before a function: it is compiled for several instruction sets, the
/// best of which is taken at run time. Between FAST_LOOPS and END_OF_FAST_LOOPS loops become vector code when they have
/// no calls but to what stands there, too (and to __builtin_sqrtf and its like, not std::sqrt), and no sums over
/// neighbours: those go over an array of partial sums.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define CHORUS_BEST_INSTRUCTIONS __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#define CHORUS_FAST_LOOPS _Pragma("GCC push_options") _Pragma("GCC optimize(\"O3\")")
#define CHORUS_END_OF_FAST_LOOPS _Pragma("GCC pop_options")
#else
#define CHORUS_BEST_INSTRUCTIONS
#define CHORUS_FAST_LOOPS
#define CHORUS_END_OF_FAST_LOOPS
#endif
