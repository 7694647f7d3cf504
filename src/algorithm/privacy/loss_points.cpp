#include "algorithm/privacy/loss_points.h"

#include <algorithm>
#include <cmath>

namespace chorus::inline privacy {
namespace {

constexpr double kRounding = 4e-16;  // relative error of a cell's probability

}  // namespace

LossPoints connect_the_dots(const LossCells& cells, Direction direction) {
  const bool forward = direction == Direction::kForward;
  const LossGrid& grid = cells.grid;
  const std::size_t n = grid.cells;
  LossPoints result{.step = grid.step,
                    .first = forward ? grid.first : -(grid.first + static_cast<std::int64_t>(n)),
                    .p = std::vector<double>(n + 1),
                    .infinite = forward ? cells.p_above : cells.q_below};
  const double share = -1 / std::expm1(-grid.step);
  result.p[0] = forward ? cells.p_below : cells.q_above;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t cell = forward ? i : n - 1 - i;
    const double own = forward ? cells.p[cell] : cells.q[cell], other = forward ? cells.q[cell] : cells.p[cell];
    // own = exp(loss) * other if all of it had the loss of the lower end.
    const double low_loss = result.loss(i);
    const double at_low = other > 0 ? std::exp(low_loss + std::log(other)) : 0;
    const double up = std::clamp((own - at_low + kRounding * own) * share, 0.0, own);
    result.p[i] += own - up;
    result.p[i + 1] += up;
  }
  result.log_p.resize(n + 1);
  std::transform(result.p.begin(), result.p.end(), result.log_p.begin(), [](double p) { return std::log(p); });
  return result;
}

Cumulants cumulants(const LossPoints& points, double t) {
  const std::size_t n = points.p.size();
  double high = -INFINITY;
  for (std::size_t i = 0; i < n; ++i) high = std::max(high, t * points.loss(i) + points.log_p[i]);
  double sum = 0, first = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double exponent = t * points.loss(i) + points.log_p[i] - high;
    if (exponent < -60) continue;
    const double weight = std::exp(exponent);
    sum += weight;
    first += weight * points.loss(i);
  }
  return {.value = high + std::log(sum), .mean = first / sum};
}

}  // namespace chorus::inline privacy
