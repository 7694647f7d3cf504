#include "application/optim/flat_kernels.h"

#include <cmath>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define CHORUS_BEST_INSTRUCTIONS \
  __attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3", "no-math-errno")))
#else
#define CHORUS_BEST_INSTRUCTIONS
#endif

namespace chorus {
namespace {

struct Constants {
  float beta1, gain1, beta2, gain2, epsilon, size, root, shrink;
};

CHORUS_BEST_INSTRUCTIONS
void adamw_everywhere(float* __restrict w, const float* __restrict g, float* __restrict m, float* __restrict v,
                      std::int64_t count, const Constants c) {
  for (std::int64_t i = 0; i < count; ++i) {
    m[i] = c.beta1 * m[i] + c.gain1 * g[i];
    v[i] = c.beta2 * v[i] + c.gain2 * g[i] * g[i];
    w[i] = w[i] - c.shrink * w[i] - c.size * m[i] / (std::sqrt(v[i]) * c.root + c.epsilon);
  }
}

CHORUS_BEST_INSTRUCTIONS
void adamw_masked(float* __restrict w, const float* __restrict g, float* __restrict m, float* __restrict v,
                  const float* __restrict mask, std::int64_t count, const Constants c) {
  for (std::int64_t i = 0; i < count; ++i) {
    m[i] = c.beta1 * m[i] + c.gain1 * g[i];
    v[i] = c.beta2 * v[i] + c.gain2 * g[i] * g[i];
    w[i] = w[i] - c.shrink * mask[i] * w[i] - c.size * m[i] / (std::sqrt(v[i]) * c.root + c.epsilon);
  }
}

}  // namespace

void adamw_step(const AdamWRow& row, std::int64_t begin, std::int64_t end, const AdamWStep& step) {
  const Constants c{static_cast<float>(step.beta1),   static_cast<float>(1 - step.beta1),
                    static_cast<float>(step.beta2),   static_cast<float>(1 - step.beta2),
                    static_cast<float>(step.epsilon), static_cast<float>(step.size),
                    static_cast<float>(step.root),    static_cast<float>(step.shrink)};
  if (row.decay == nullptr || step.shrink == 0) {
    adamw_everywhere(row.values + begin, row.gradients + begin, row.first + begin, row.second + begin, end - begin, c);
  } else {
    adamw_masked(row.values + begin, row.gradients + begin, row.first + begin, row.second + begin, row.decay + begin,
                 end - begin, c);
  }
}

}  // namespace chorus
