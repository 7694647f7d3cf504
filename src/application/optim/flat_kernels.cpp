#include "application/optim/flat_kernels.h"

#include <cmath>

#include "core/base/best_instructions.h"

namespace chorus::inline optim {
namespace {

CHORUS_FAST_LOOPS

struct Constants {
  float beta1, gain1, beta2, gain2, epsilon, size, root, shrink, scale;
};

CHORUS_BEST_INSTRUCTIONS
void adamw_everywhere(float* w, const float* before, const float* __restrict g, float* __restrict m,
                      float* __restrict v, std::int64_t count, const Constants c) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    const float d = g[i] * c.scale;
    m[i] = c.beta1 * m[i] + c.gain1 * d;
    v[i] = c.beta2 * v[i] + c.gain2 * d * d;
    w[i] = before[i] - c.shrink * before[i] - c.size * m[i] / (__builtin_sqrtf(v[i]) * c.root + c.epsilon);
  }
}

CHORUS_BEST_INSTRUCTIONS
void adamw_masked(float* w, const float* before, const float* __restrict g, float* __restrict m, float* __restrict v,
                  const float* __restrict mask, std::int64_t count, const Constants c) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    const float d = g[i] * c.scale;
    m[i] = c.beta1 * m[i] + c.gain1 * d;
    v[i] = c.beta2 * v[i] + c.gain2 * d * d;
    w[i] = before[i] - c.shrink * mask[i] * before[i] - c.size * m[i] / (__builtin_sqrtf(v[i]) * c.root + c.epsilon);
  }
}

CHORUS_BEST_INSTRUCTIONS
void go_down(float* w, const float* before, const float* __restrict g, float rate, std::int64_t count) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) w[i] = before[i] - rate * g[i];
}

CHORUS_BEST_INSTRUCTIONS
void add_squares(const float* __restrict x, std::int64_t count, float* __restrict lanes) {
  std::int64_t i = 0;
  for (; i + 32 <= count; i += 32) {
    for (int k = 0; k < 32; ++k) lanes[k] += x[i + k] * x[i + k];
  }
  for (int k = 0; i < count; ++i, ++k) lanes[k] += x[i] * x[i];
}

CHORUS_END_OF_FAST_LOOPS

}  // namespace

void adamw_step(const AdamWRow& row, std::int64_t begin, std::int64_t end, const AdamWStep& step) {
  const Constants c{
      static_cast<float>(step.beta1),     static_cast<float>(1 - step.beta1), static_cast<float>(step.beta2),
      static_cast<float>(1 - step.beta2), static_cast<float>(step.epsilon),   static_cast<float>(step.size),
      static_cast<float>(step.root),      static_cast<float>(step.shrink),    static_cast<float>(step.scale)};
  if (row.decay == nullptr || step.shrink == 0) {
    adamw_everywhere(row.values + begin, row.before + begin, row.gradients + begin, row.first + begin,
                     row.second + begin, end - begin, c);
  } else {
    adamw_masked(row.values + begin, row.before + begin, row.gradients + begin, row.first + begin, row.second + begin,
                 row.decay + begin, end - begin, c);
  }
}

void sgd_step(float* values, const float* before, const float* gradients, double rate, std::int64_t count) {
  go_down(values, before, gradients, static_cast<float>(rate), count);
}

double sum_of_squares(const float* numbers, std::int64_t count) {
  float lanes[32] = {};
  add_squares(numbers, count, lanes);
  double sum = 0;
  for (const float lane : lanes) sum += static_cast<double>(lane);
  return sum;
}

}  // namespace chorus::inline optim
