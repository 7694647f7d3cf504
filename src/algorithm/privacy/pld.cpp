#include "algorithm/privacy/pld.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "algorithm/privacy/fourier.h"
#include "algorithm/privacy/loss_distribution.h"
#include "algorithm/privacy/loss_points.h"
#include "core/base/error.h"

namespace chorus::inline privacy {
namespace {

constexpr double kCut = 1e-8;                          // share of delta that the ranges and the window may cut off
constexpr std::size_t kSketch = std::size_t{1} << 11;  // cells while the tilt is searched

struct Term {
  LossPoints points;
  double steps = 1;
};

struct Sum {
  double value = 0, mean = 0;
};

// The cumulants of the composed loss.
Sum sum_at(std::span<const Term> terms, double t) {
  Sum sum;
  for (const Term& term : terms) {
    const Cumulants c = cumulants(term.points, t);
    sum.value += term.steps * c.value;
    sum.mean += term.steps * c.mean;
  }
  return sum;
}

// How the sum is tilted, and the tilts whose means are the ends of the window.
struct Tilts {
  double low = 0, middle = 0, high = 0;
};

// The tilt between `from` and `most` at which the condition stops holding, rounded towards `most`.
template <typename Condition>
double last_tilt(double from, double most, const Condition& holds) {
  double share = 1e-10;
  while (holds(from + (most - from) * share)) {
    share *= 4;
    if (share >= 1) return most;
  }
  double inside = share / 4, outside = share;
  for (int i = 0; i < 12; ++i) {
    const double middle = std::sqrt(inside * outside);
    (holds(from + (most - from) * middle) ? inside : outside) = middle;
  }
  return from + (most - from) * outside;
}

// The middle of the tilted sum is `centre`, and Chernoff's bound on its mass outside the window is kCut on either side.
Tilts plan(std::span<const Term> terms, double centre) {
  double widest = 0, largest = 0;
  for (const Term& term : terms) {
    widest = std::max(widest, static_cast<double>(term.points.p.size()) * term.points.step);
    largest += term.steps * term.points.loss(term.points.p.size() - 1);
  }
  // Where the largest loss has a probability above delta, a tilt that leaves nothing else would drown the rest in
  // rounding errors.
  centre = std::min(centre, largest - 0.05 * (largest - sum_at(terms, 0).mean));
  const double most = 1e6 / widest;
  Tilts tilts;
  tilts.middle = last_tilt(0, most, [&](double t) { return sum_at(terms, t).mean < centre; });
  const double value = sum_at(terms, tilts.middle).value;
  const auto holds = [&](double t) {
    const Sum s = sum_at(terms, t);
    return s.value - value - (t - tilts.middle) * s.mean > std::log(kCut);
  };
  tilts.high = last_tilt(tilts.middle, tilts.middle + most, holds);
  tilts.low = last_tilt(tilts.middle, tilts.middle - most, holds);
  return tilts;
}

// Where Chernoff's bound on the composed loss falls to delta: above epsilon, far above it for heavy tails.
double chernoff_epsilon(std::span<const Term> terms, double delta) {
  double widest = 0;
  for (const Term& term : terms) {
    widest = std::max(widest, static_cast<double>(term.points.p.size()) * term.points.step);
  }
  const double t = last_tilt(0, 1e6 / widest, [&](double x) {
    const Sum s = sum_at(terms, x);
    return s.value - x * s.mean > std::log(delta);
  });
  return sum_at(terms, t).mean;
}

/// The composed losses on the points (first + i) * step, as probabilities divided by delta.
struct Composed {
  double step = 0;
  std::int64_t first = 0;
  std::vector<double> p;
  double beyond = 0;  // probability of an infinite or cut-off loss, divided by delta
};

std::size_t wrapped(std::int64_t index, std::size_t size) {
  const auto n = static_cast<std::int64_t>(size);
  return static_cast<std::size_t>(((index % n) + n) % n);
}

Composed compose(std::span<const Term> terms, const Tilts& tilts, double delta, std::size_t size) {
  const double step = terms.front().points.step, t = tilts.middle;
  std::vector<std::complex<double>> logs(size / 2 + 1);
  double value = 0, log_finite = 0, steps = 0;
  for (const Term& term : terms) {
    const double k = cumulants(term.points, t).value;
    std::vector<double> tilted(size, 0);
    for (std::size_t i = 0; i < term.points.p.size(); ++i) {
      if (term.points.p[i] <= 0) continue;
      const std::int64_t index = term.points.first + static_cast<std::int64_t>(i);
      tilted[wrapped(index, size)] += term.points.p[i] * std::exp(t * term.points.loss(i) - k);
    }
    const std::vector<std::complex<double>> transform = fourier(tilted);
    for (std::size_t i = 0; i < logs.size(); ++i) {
      const double magnitude = std::log(std::max(std::abs(transform[i]), 1e-300));
      logs[i] += term.steps * std::complex<double>(magnitude, std::arg(transform[i]));
    }
    value += term.steps * k;
    log_finite += term.steps * std::log1p(-term.points.infinite);
    steps += term.steps;
  }
  double magnitudes = 0;
  for (std::complex<double>& x : logs) {
    x = std::polar(std::exp(x.real()), x.imag());
    magnitudes += std::abs(x);
  }
  const auto n = static_cast<double>(size);
  // Every coefficient has a relative error of about steps * epsilon, the transforms one of log(size) * epsilon.
  const double rounding = 4 * std::numeric_limits<double>::epsilon() * (steps + std::log2(n)) * 2 * magnitudes / n;

  const Sum low = sum_at(terms, tilts.low), high = sum_at(terms, tilts.high);
  Composed result{.step = step, .p = inverse_fourier(logs, size)};
  // The window holds [low, high]; what is left goes to both sides equally.
  result.first = static_cast<std::int64_t>(std::floor(((low.mean + high.mean) / step - n) / 2));
  const double top = static_cast<double>(result.first + static_cast<std::int64_t>(size)) * step;
  const double cut = std::exp(high.value - tilts.high * top - std::log(delta));
  result.beyond = cut - std::expm1(log_finite) / delta;
  std::vector<double> ordered(size);
  for (std::size_t i = 0; i < size; ++i) {
    const std::int64_t index = result.first + static_cast<std::int64_t>(i);
    const double tilted = std::max(result.p[wrapped(index, size)], 0.0) + rounding;
    ordered[i] = tilted * std::exp(value - t * static_cast<double>(index) * step - std::log(delta));
  }
  result.p = std::move(ordered);
  return result;
}

// The epsilon at which delta(epsilon) = sum_{x > epsilon} p(x) (1 - e^{epsilon - x}) + beyond is 1 (times delta).
double solve(const Composed& composed) {
  if (composed.beyond >= 1) return std::numeric_limits<double>::infinity();
  const double shrink = std::exp(-composed.step), rise = -std::expm1(-composed.step);
  double mass = 0, stick = composed.beyond;
  for (std::size_t i = composed.p.size(); i-- > 0;) {
    const double x = static_cast<double>(composed.first + static_cast<std::int64_t>(i)) * composed.step;
    if (x <= 0) return 0;
    mass += composed.p[i];
    // At a distance s below x: beyond + e^{-s} (stick - beyond) + (1 - e^{-s}) mass.
    const double next = composed.beyond + shrink * (stick - composed.beyond) + rise * mass;
    if (next > 1) {
      const double inner = (mass - (1 - composed.beyond)) / (mass - (stick - composed.beyond));
      return std::max(x + std::log(std::clamp(inner, shrink, 1.0)), 0.0);
    }
    stick = next;
  }
  return std::max(static_cast<double>(composed.first) * composed.step, 0.0);
}

std::vector<Term> terms_of(std::span<const ComposedLoss> losses, std::span<const LossCells> cells,
                           Direction direction) {
  std::vector<Term> terms;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    terms.push_back({connect_the_dots(cells[i], direction), losses[i].steps});
  }
  return terms;
}

LossGrid grid_over(const LossDistribution::Range& range, double step) {
  const auto first = static_cast<std::int64_t>(std::floor(range.low / step)) - 1;
  const auto last = static_cast<std::int64_t>(std::ceil(range.high / step)) + 1;
  return {.step = step, .first = first, .cells = static_cast<std::size_t>(last - first)};
}

class Composition {
 public:
  Composition(std::span<const ComposedLoss> losses, double delta, std::size_t size)
      : losses_(losses), delta_(delta), size_(size) {
    double steps = 0;
    for (const ComposedLoss& loss : losses) steps += loss.steps;
    for (const ComposedLoss& loss : losses) ranges_.push_back(loss.loss->range(delta * kCut / steps));
  }

  double epsilon() {
    for (const LossDistribution::Range& range : ranges_) widest_ = std::max(widest_, range.high - range.low);
    return std::max(epsilon(Direction::kForward), epsilon(Direction::kReverse));
  }

 private:
  // The best tilt depends on epsilon, so a coarse grid finds it first. Every attempt is an upper bound.
  double epsilon(Direction direction) {
    std::vector<Term> terms = terms_of(losses_, cells_with(widest_ / kSketch), direction);
    double centre = chernoff_epsilon(terms, delta_);
    for (int attempt = 0; attempt < 12; ++attempt) {
      const double next = attempt_with(terms, centre, kSketch, direction);
      const bool settled = std::abs(next - centre) < 0.02 * centre;
      centre = std::min(centre, next);
      if (settled) break;
    }
    centre = std::min(centre, attempt_with(terms, centre, std::min(size_, 8 * kSketch), direction));
    return attempt_with(terms, centre, size_, direction);
  }

  double attempt_with(std::vector<Term>& terms, double centre, std::size_t size, Direction direction) {
    const Tilts tilts = plan(terms, centre);
    const double width = sum_at(terms, tilts.high).mean - sum_at(terms, tilts.low).mean;
    // A step has at most twice as many points as the window.
    const double window = std::max(width, widest_ / 2) * 1.05;
    std::vector<Term> fresh = terms_of(losses_, cells_with(window / static_cast<double>(size)), direction);
    const double epsilon = solve(compose(fresh, tilts, delta_, size));
    // The finest grid plans best; with many steps the first sketch may be finer than the window's.
    if (fresh.front().points.step < terms.front().points.step) terms = std::move(fresh);
    return epsilon;
  }

  std::vector<LossCells> cells_with(double step) const {
    std::vector<LossCells> cells;
    for (std::size_t i = 0; i < losses_.size(); ++i)
      cells.push_back(losses_[i].loss->cells(grid_over(ranges_[i], step)));
    return cells;
  }

  std::span<const ComposedLoss> losses_;
  double delta_;
  std::size_t size_;
  std::vector<LossDistribution::Range> ranges_;
  double widest_ = 0;  // of the ranges
};

}  // namespace

double pld_epsilon(std::span<const Mechanism> mechanisms, Adjacency adjacency, double delta, std::size_t cells) {
  std::vector<ComposedLoss> losses;
  double pure = 0;
  for (const Mechanism& m : mechanisms) {
    if (is_nothing(m)) continue;
    losses.push_back(composed_loss(m, adjacency));
    pure += losses.back().steps * losses.back().loss->largest();
  }
  if (losses.empty() || pure <= 0) return 0;
  if (delta <= 0) return pure;
  const double epsilon = Composition(losses, delta, cells).epsilon();
  return std::min(pure, epsilon * (1 + 1e-9));
}

}  // namespace chorus::inline privacy
