#include "core/tensor/flat_math.h"

#include <ATen/Parallel.h>

#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <atomic>
#include <cmath>

#include "core/base/best_instructions.h"
#include "core/base/error.h"

namespace chorus::inline tensor {
namespace {

CHORUS_FAST_LOOPS

constexpr std::int64_t kGrain = 1 << 16;

CHORUS_BEST_INSTRUCTIONS
void sum_of_one(float* out, const float* a, float wa, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = wa * a[i];
}

CHORUS_BEST_INSTRUCTIONS
void sum_of_two(float* out, const float* a, float wa, const float* b, float wb, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = wa * a[i] + wb * b[i];
}

CHORUS_BEST_INSTRUCTIONS
void sum_of_three(float* out, const float* a, float wa, const float* b, float wb, const float* c, float wc,
                  std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = (wa * a[i] + wb * b[i]) + wc * c[i];
}

CHORUS_BEST_INSTRUCTIONS
void sum_of_four(float* out, const float* a, float wa, const float* b, float wb, const float* c, float wc,
                 const float* d, float wd, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = (wa * a[i] + wb * b[i]) + (wc * c[i] + wd * d[i]);
}

CHORUS_BEST_INSTRUCTIONS
void sum_of_eight(float* out, const Term* t, std::int64_t from, std::int64_t n) {
  const float *a = t[0].numbers + from, *b = t[1].numbers + from, *c = t[2].numbers + from, *d = t[3].numbers + from;
  const float *e = t[4].numbers + from, *f = t[5].numbers + from, *g = t[6].numbers + from, *h = t[7].numbers + from;
  const float wa = t[0].weight, wb = t[1].weight, wc = t[2].weight, wd = t[3].weight;
  const float we = t[4].weight, wf = t[5].weight, wg = t[6].weight, wh = t[7].weight;
  // Hardware prefetching stops at page boundaries; eight streams at once need software prefetching.
  constexpr std::int64_t kStride = 64, kAhead = 512;
  for (std::int64_t begin = 0; begin < n; begin += kStride) {
    for (std::int64_t line = begin + kAhead; line < begin + kAhead + kStride; line += 16) {
      for (const float* x : {a, b, c, d, e, f, g, h}) __builtin_prefetch(x + line);
    }
    const std::int64_t end = n - begin < kStride ? n : begin + kStride;
#pragma GCC ivdep
    for (std::int64_t i = begin; i < end; ++i) {
      out[i] =
          ((wa * a[i] + wb * b[i]) + (wc * c[i] + wd * d[i])) + ((we * e[i] + wf * f[i]) + (wg * g[i] + wh * h[i]));
    }
  }
}

CHORUS_BEST_INSTRUCTIONS
float difference_of(float* __restrict x, const float* __restrict y, std::int64_t n) {
  float lanes[32] = {};
  std::int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    for (int k = 0; k < 32; ++k) {
      x[i + k] -= y[i + k];
      lanes[k] += x[i + k] - x[i + k];
    }
  }
  for (; i < n; ++i) {
    x[i] -= y[i];
    lanes[0] += x[i] - x[i];
  }
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

// x - x is 0 for a finite x and NaN otherwise.
CHORUS_BEST_INSTRUCTIONS
float differences(const float* x, std::int64_t n) {
  float lanes[32] = {};
  std::int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    for (int k = 0; k < 32; ++k) lanes[k] += x[i + k] - x[i + k];
  }
  for (; i < n; ++i) lanes[0] += x[i] - x[i];
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

CHORUS_END_OF_FAST_LOOPS

}  // namespace

namespace {

// A piece of the result that stays in the cache.
constexpr std::int64_t kPiece = 4096;

// At most four terms.
void sum_of(float* out, std::span<const Term> t, std::int64_t begin, std::int64_t n) {
  const auto of = [&](std::size_t k) { return t[k].numbers + begin; };
  if (t.size() == 1) sum_of_one(out, of(0), t[0].weight, n);
  if (t.size() == 2) sum_of_two(out, of(0), t[0].weight, of(1), t[1].weight, n);
  if (t.size() == 3) sum_of_three(out, of(0), t[0].weight, of(1), t[1].weight, of(2), t[2].weight, n);
  if (t.size() == 4) {
    sum_of_four(out, of(0), t[0].weight, of(1), t[1].weight, of(2), t[2].weight, of(3), t[3].weight, n);
  }
}

// Non-temporal stores: a long result is not read again soon, and its memory need not be read first.
void store(float* out, const float* piece, std::int64_t n) {
#ifdef __SSE__
  if (reinterpret_cast<std::uintptr_t>(out) % 16 == 0) {
    std::int64_t i = 0;
    for (; i + 4 <= n; i += 4) _mm_stream_ps(out + i, _mm_loadu_ps(piece + i));
    for (; i < n; ++i) out[i] = piece[i];
    return;
  }
#endif
  std::copy_n(piece, n, out);
}

}  // namespace

void weighted_sum(float* out, std::span<const Term> terms, std::span<const float* const> sums, std::int64_t count) {
  check(!terms.empty() && terms.size() <= kMostTerms, "a sum of one to eight vectors");
  const std::span<const Term> first = terms.first(std::min<std::size_t>(terms.size(), 4));
  const std::span<const Term> second = terms.subspan(first.size());
  at::parallel_for(0, count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    float piece[kPiece], other[kPiece];
    for (std::int64_t at = begin; at < end; at += kPiece) {
      const std::int64_t n = std::min(kPiece, end - at);
      if (terms.size() == 8) {
        sum_of_eight(piece, terms.data(), at, n);
      } else {
        sum_of(piece, first, at, n);
        if (!second.empty()) {
          sum_of(other, second, at, n);
          sum_of_two(piece, piece, 1.0F, other, 1.0F, n);
        }
      }
      for (const float* sum : sums) sum_of_two(piece, piece, 1.0F, sum + at, 1.0F, n);
      store(out + at, piece, n);
    }
  });
}

void add_to(float* x, const float* y, std::int64_t count) {
  const Term term{x, 1.0F};
  weighted_sum(x, std::span(&term, 1), std::span(&y, 1), count);
}

bool subtract_from(float* x, const float* y, std::int64_t count) {
  std::atomic<bool> finite = true;
  at::parallel_for(0, count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    if (std::isnan(difference_of(x + begin, y + begin, end - begin))) finite = false;
  });
  return finite;
}

bool all_finite(const float* numbers, std::int64_t count) {
  std::atomic<bool> finite = true;
  at::parallel_for(0, count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    if (std::isnan(differences(numbers + begin, end - begin))) finite = false;
  });
  return finite;
}

}  // namespace chorus::inline tensor
