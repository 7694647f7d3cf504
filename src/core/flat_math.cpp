#include "core/flat_math.h"

#include <ATen/Parallel.h>

#include <atomic>
#include <cmath>

#include "core/best_instructions.h"
#include "core/error.h"

namespace chorus {
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

// x - x is 0 for a number and not a number for anything else.
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

void weighted_sum(float* out, std::span<const Term> t, std::int64_t count) {
  check(!t.empty() && t.size() <= kMostTerms, "a sum of one to four vectors");
  at::parallel_for(0, count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    const auto of = [&](std::size_t k) { return t[k].numbers + begin; };
    const std::int64_t n = end - begin;
    if (t.size() == 1) sum_of_one(out + begin, of(0), t[0].weight, n);
    if (t.size() == 2) sum_of_two(out + begin, of(0), t[0].weight, of(1), t[1].weight, n);
    if (t.size() == 3) {
      sum_of_three(out + begin, of(0), t[0].weight, of(1), t[1].weight, of(2), t[2].weight, n);
    }
    if (t.size() == 4) {
      sum_of_four(out + begin, of(0), t[0].weight, of(1), t[1].weight, of(2), t[2].weight, of(3), t[3].weight, n);
    }
  });
}

void add_to(float* x, const float* y, std::int64_t count) {
  const Term terms[2] = {{x, 1.0F}, {y, 1.0F}};
  weighted_sum(x, terms, count);
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

}  // namespace chorus
