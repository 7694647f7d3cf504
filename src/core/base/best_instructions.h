#pragma once

/// Macros for hot loops over plain memory. CHORUS_BEST_INSTRUCTIONS before a function compiles it for several
/// instruction sets; the program picks the best one when it is loaded. Between CHORUS_FAST_LOOPS and
/// CHORUS_END_OF_FAST_LOOPS the compiler vectorises loops that call only functions defined there (or builtins such as
/// __builtin_sqrtf, not std::sqrt) and that do not reduce over neighbours: a reduction keeps an array of partial sums.
///
/// The thread sanitizer gets one version only: the clones are chosen by an ifunc resolver that runs before the
/// sanitizer's runtime is ready, and the program would crash before main.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define CHORUS_BEST_INSTRUCTIONS __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define CHORUS_BEST_INSTRUCTIONS
#endif
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define CHORUS_FAST_LOOPS _Pragma("GCC push_options") _Pragma("GCC optimize(\"O3\")")
#define CHORUS_END_OF_FAST_LOOPS _Pragma("GCC pop_options")
#else
#define CHORUS_FAST_LOOPS
#define CHORUS_END_OF_FAST_LOOPS
#endif
