#include "algorithm/privacy/loss_distribution.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/base/error.h"

namespace chorus::inline privacy {
namespace {

// The extended type keeps the difference of two nearly equal probabilities accurate in cells that hold 1e-6 of the
// mass.
using Real = long double;

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

/// The probabilities of a loss of at most x, and of one above x.
struct Split {
  Real p_below = 0, p_above = 0, q_below = 0, q_above = 0;
};

// ln(1 + (e^x - 1) / q): the loss before sampling of a loss x after it; -infinity below ln(1 - q).
Real before_sampling(Real x, Real q) {
  if (q >= 1) return x;
  if (x > 100) return x - std::log(q) + std::log1p((q - 1) * std::exp(-x));
  const Real y = std::expm1(x) / q;
  return y <= -1 ? -std::numeric_limits<Real>::infinity() : std::log1p(y);
}

Real after_sampling(Real x, Real q) {
  if (q >= 1) return x;
  if (x > 100) return x + std::log(q) + std::log1p((1 - q) / q * std::exp(-x));
  return std::log1p(q * std::expm1(x));
}

/// Losses with a known probability of exceeding any value.
class SplitLoss : public LossDistribution {
 public:
  LossCells cells(const LossGrid& grid) const override {
    LossCells result{.grid = grid, .p = std::vector<double>(grid.cells), .q = std::vector<double>(grid.cells)};
    const auto boundary = [&](std::size_t i) {
      return split(static_cast<Real>(grid.first + static_cast<std::int64_t>(i)) * static_cast<Real>(grid.step));
    };
    Split low = boundary(0);
    result.p_below = static_cast<double>(low.p_below);
    result.q_below = static_cast<double>(low.q_below);
    for (std::size_t i = 0; i < grid.cells; ++i) {
      const Split high = boundary(i + 1);
      // The difference of the smaller values loses fewer digits.
      const Real p = low.p_above < low.p_below ? low.p_above - high.p_above : high.p_below - low.p_below;
      const Real q = low.q_above < low.q_below ? low.q_above - high.q_above : high.q_below - low.q_below;
      result.p[i] = static_cast<double>(std::max<Real>(p, 0));
      result.q[i] = static_cast<double>(std::max<Real>(q, 0));
      low = high;
    }
    result.p_above = static_cast<double>(low.p_above);
    result.q_above = static_cast<double>(low.q_above);
    return result;
  }

 private:
  virtual Split split(Real loss) const = 0;
};

Real normal_above(Real x) { return std::erfc(x / std::sqrt(Real{2})) / 2; }

// Beyond this many standard deviations a normal variable has less than `tail` of its mass.
double deviations(double tail) { return std::sqrt(2 * std::log(1 / tail)); }

/// P = (1-q) N(0, s^2) + q N(1, s^2) against Q = N(0, s^2).
class SampledGaussianLoss : public SplitLoss {
 public:
  SampledGaussianLoss(double q, double s) : q_(q), s_(s) {}

  Range range(double tail) const override {
    const double reach = deviations(tail) * static_cast<double>(s_);
    return {static_cast<double>(loss(-reach)), static_cast<double>(loss(1 + reach))};
  }
  double largest() const override { return kUnbounded; }

 private:
  Real loss(Real z) const { return after_sampling((2 * z - 1) / (2 * s_ * s_), q_); }
  Split split(Real x) const override {
    const Real z = 0.5L + s_ * s_ * before_sampling(x, q_);
    Split result{.q_below = normal_above(-z / s_), .q_above = normal_above(z / s_)};
    result.p_below = (1 - q_) * result.q_below + q_ * normal_above((1 - z) / s_);
    result.p_above = (1 - q_) * result.q_above + q_ * normal_above((z - 1) / s_);
    return result;
  }

  Real q_, s_;
};

/// A record is replaced: P = (1-q) N(0, s^2) + q N(1, s^2) against Q = (1-q) N(0, s^2) + q N(-1, s^2).
class ReplacedGaussianLoss : public SplitLoss {
 public:
  ReplacedGaussianLoss(double q, double s) : q_(q), s_(s) {}

  Range range(double tail) const override {
    const double reach = 1 + deviations(tail) * static_cast<double>(s_);
    return {static_cast<double>(loss(-reach)), static_cast<double>(loss(reach))};
  }
  double largest() const override { return kUnbounded; }

 private:
  Real loss(Real z) const {
    return after_sampling((2 * z - 1) / (2 * s_ * s_), q_) - after_sampling((-2 * z - 1) / (2 * s_ * s_), q_);
  }
  // With y = e^{z / s^2} / sqrt(e^x) the equation loss(z) = x is q e^{-1/(2 s^2)} (y - 1/y) = 2 (1-q) sinh(x/2).
  Split split(Real x) const override {
    const Real ratio = (1 - q_) / q_ * std::exp(1 / (2 * s_ * s_));
    const Real z = s_ * s_ * (x / 2 + std::asinh(ratio * std::sinh(x / 2)));
    Split result;
    result.p_below = (1 - q_) * normal_above(-z / s_) + q_ * normal_above((1 - z) / s_);
    result.p_above = (1 - q_) * normal_above(z / s_) + q_ * normal_above((z - 1) / s_);
    result.q_below = (1 - q_) * normal_above(-z / s_) + q_ * normal_above((-1 - z) / s_);
    result.q_above = (1 - q_) * normal_above(z / s_) + q_ * normal_above((z + 1) / s_);
    return result;
  }

  Real q_, s_;
};

/// A group of g records, of which a binomial number is sampled: P = sum_j B(j; g, q) N(j, s^2) against Q = N(0, s^2)
/// (Ganesh 2024).
class GroupGaussianLoss : public SplitLoss {
 public:
  GroupGaussianLoss(double q, double s, std::int64_t group) : s_(s) {
    const auto g = static_cast<Real>(group);
    for (Real j = 0; j <= g; ++j) {
      weights_.push_back(std::exp(std::lgamma(g + 1) - std::lgamma(j + 1) - std::lgamma(g - j + 1) +
                                  j * std::log(static_cast<Real>(q)) + (g - j) * std::log1p(-static_cast<Real>(q))));
    }
  }

  Range range(double tail) const override {
    const double reach = deviations(tail) * static_cast<double>(s_);
    const auto most = static_cast<double>(weights_.size() - 1);
    return {static_cast<double>(loss(-reach)), static_cast<double>(loss(most + reach))};
  }
  double largest() const override { return kUnbounded; }

 private:
  Real loss(Real z) const { return loss_and_slope(z).first; }
  std::pair<Real, Real> loss_and_slope(Real z) const {
    Real high = 0;
    for (std::size_t j = 1; j < weights_.size(); ++j) high = std::max(high, exponent(j, z));
    Real sum = 0, excess = 0, slope = 0;
    for (std::size_t j = 0; j < weights_.size(); ++j) {
      const Real term = weights_[j] * std::exp(exponent(j, z) - high);
      sum += term;
      slope += term * static_cast<Real>(j) / (s_ * s_);
      if (high < 1) excess += weights_[j] * std::expm1(exponent(j, z));
    }
    return {high < 1 ? std::log1p(excess) : high + std::log(sum), slope / sum};
  }
  Real exponent(std::size_t j, Real z) const {
    const auto x = static_cast<Real>(j);
    return (2 * x * z - x * x) / (2 * s_ * s_);
  }
  // Newton's method from above: the loss is increasing and convex in z, so it never overshoots the root.
  Real outcome(Real x) const {
    if (x <= std::log(weights_[0])) return -std::numeric_limits<Real>::infinity();
    Real z = 0, reach = s_;
    while (loss(z) < x) {
      z += reach;
      reach *= 2;
    }
    for (int i = 0; i < 100; ++i) {
      const auto [value, slope] = loss_and_slope(z);
      const Real next = z - (value - x) / slope;
      if (!(z - next > 1e-17L * (std::abs(z) + s_))) break;
      z = next;
    }
    return z;
  }
  Split split(Real x) const override {
    const Real z = outcome(x);
    Split result{.q_below = normal_above(-z / s_), .q_above = normal_above(z / s_)};
    for (std::size_t j = 0; j < weights_.size(); ++j) {
      const Real away = (z - static_cast<Real>(j)) / s_;
      result.p_below += weights_[j] * normal_above(-away);
      result.p_above += weights_[j] * normal_above(away);
    }
    return result;
  }

  Real s_;
  std::vector<Real> weights_;
};

/// P = (1-q) L(0, b) + q L(1, b) against Q = L(0, b). All outcomes below 0 share one loss, and so do all above 1.
class LaplaceLoss : public SplitLoss {
 public:
  LaplaceLoss(double q, double b) : q_(q), b_(b) {}

  Range range(double) const override {
    return {static_cast<double>(after_sampling(-1 / b_, q_)), static_cast<double>(after_sampling(1 / b_, q_))};
  }
  double largest() const override { return std::max(-range(0).low, range(0).high); }

 private:
  Real above(Real z) const { return z < 0 ? 1 - std::exp(z / b_) / 2 : std::exp(-z / b_) / 2; }
  Split split(Real x) const override {
    const Real y = before_sampling(x, q_);
    // A rounding error must not push an atom out of the last cell.
    if (y >= 1 / b_) return {.p_below = 1, .p_above = 0, .q_below = 1, .q_above = 0};
    if (y < -1 / b_) return {.p_below = 0, .p_above = 1, .q_below = 0, .q_above = 1};
    const Real z = (1 + b_ * y) / 2;
    Split result{.q_below = above(-z), .q_above = above(z)};
    result.p_below = (1 - q_) * result.q_below + q_ * above(1 - z);
    result.p_above = (1 - q_) * result.q_above + q_ * above(z - 1);
    return result;
  }

  Real q_, b_;
};

/// Finitely many outcomes, or all that matter of infinitely many.
class AtomicLoss : public LossDistribution {
 public:
  struct Atom {
    double loss = 0, p = 0, q = 0;
  };
  /// `p_lost` and `q_lost`: mass of unlisted outcomes, which count as infinite losses.
  AtomicLoss(std::vector<Atom> atoms, double largest, double p_lost, double q_lost)
      : atoms_(std::move(atoms)), largest_(largest), p_lost_(p_lost), q_lost_(q_lost) {}

  Range range(double) const override {
    const auto by_loss = [](const Atom& a, const Atom& b) { return a.loss < b.loss; };
    const auto [low, high] = std::minmax_element(atoms_.begin(), atoms_.end(), by_loss);
    return {low->loss, high->loss};
  }
  LossCells cells(const LossGrid& grid) const override {
    LossCells result{.grid = grid, .p = std::vector<double>(grid.cells), .q = std::vector<double>(grid.cells)};
    result.p_above = p_lost_;
    result.q_below = q_lost_;
    for (const Atom& atom : atoms_) {
      const double at = std::ceil(atom.loss / grid.step) - 1 - static_cast<double>(grid.first);
      const bool low = at < 0, high = at >= static_cast<double>(grid.cells);
      const auto i = low || high ? 0 : static_cast<std::size_t>(at);
      (low ? result.p_below : high ? result.p_above : result.p[i]) += atom.p;
      (low ? result.q_below : high ? result.q_above : result.q[i]) += atom.q;
    }
    return result;
  }
  double largest() const override { return largest_; }

 private:
  std::vector<Atom> atoms_;
  double largest_, p_lost_, q_lost_;
};

// Outcomes of integer noise with the given log weight, shifted by `shift` with probability q.
template <typename LogWeight>
std::unique_ptr<LossDistribution> integer_loss(const LogWeight& log_weight, std::int64_t shift, double q,
                                               double largest) {
  constexpr double kNegligible = -110;  // e^-110 = 2e-48 relative to the mode
  std::int64_t reach = 1;
  while (log_weight(reach) > kNegligible) reach += 1 + reach / 8;
  Real total = 0;
  for (std::int64_t z = -reach; z <= reach; ++z) total += std::exp(static_cast<Real>(log_weight(z)));
  std::vector<AtomicLoss::Atom> atoms;
  for (std::int64_t z = -reach; z <= reach + shift; ++z) {
    const double plain = log_weight(z), moved = log_weight(z - shift);
    const auto loss = static_cast<double>(after_sampling(moved - plain, q));
    const Real without = std::exp(static_cast<Real>(plain)) / total;
    const Real with = (1 - q) * without + q * std::exp(static_cast<Real>(moved)) / total;
    atoms.push_back({loss, static_cast<double>(with), static_cast<double>(without)});
  }
  return std::make_unique<AtomicLoss>(std::move(atoms), largest, 1e-45, 1e-45);
}

std::unique_ptr<LossDistribution> randomized_response(double noise, std::int64_t buckets) {
  const double other = noise / static_cast<double>(buckets), truth = 1 - noise + other;
  const double loss = std::log(truth / other);
  std::vector<AtomicLoss::Atom> atoms{{loss, truth, other}, {-loss, other, truth}};
  const double rest = static_cast<double>(buckets - 2) * other;
  if (rest > 0) atoms.push_back({0, rest, rest});
  return std::make_unique<AtomicLoss>(std::move(atoms), loss, 0, 0);
}

ComposedLoss gaussian(const Mechanism& m, Adjacency adjacency) {
  const bool replace = adjacency == Adjacency::kReplace;
  const auto steps = static_cast<double>(m.steps);
  if (m.sampling_rate >= 1) {
    const double moved = static_cast<double>(m.group) * (replace ? 2 : 1);
    return {std::make_unique<SampledGaussianLoss>(1, m.noise / moved / std::sqrt(steps)), 1};
  }
  if (replace) return {std::make_unique<ReplacedGaussianLoss>(m.sampling_rate, m.noise), steps};
  if (m.group > 1) return {std::make_unique<GroupGaussianLoss>(m.sampling_rate, m.noise, m.group), steps};
  return {std::make_unique<SampledGaussianLoss>(m.sampling_rate, m.noise), steps};
}

}  // namespace

ComposedLoss composed_loss(const Mechanism& m, Adjacency adjacency) {
  const std::int64_t shift = adjacency == Adjacency::kReplace ? 2 : 1;
  const auto steps = static_cast<double>(m.steps);
  switch (m.kind) {
    case MechanismKind::kGaussian:
      return gaussian(m, adjacency);
    case MechanismKind::kLaplace:
      return {std::make_unique<LaplaceLoss>(m.sampling_rate, m.noise / static_cast<double>(shift)), steps};
    case MechanismKind::kDiscreteGaussian: {
      const double variance = m.noise * m.noise;
      const auto log_weight = [=](std::int64_t z) {
        return -static_cast<double>(z) * static_cast<double>(z) / (2 * variance);
      };
      return {integer_loss(log_weight, shift, m.sampling_rate, kUnbounded), steps};
    }
    case MechanismKind::kDiscreteLaplace: {
      const auto log_weight = [scale = m.noise](std::int64_t z) { return -std::abs(static_cast<double>(z)) / scale; };
      return {integer_loss(log_weight, shift, m.sampling_rate, static_cast<double>(shift) / m.noise), steps};
    }
    case MechanismKind::kRandomizedResponse:
      return {randomized_response(m.noise, m.buckets), steps};
    case MechanismKind::kSkellam:
      throw ConfigError("the PLD accountant does not cover skellam noise on vectors; use the RDP accountant");
    case MechanismKind::kConcentrated:
      throw ConfigError(
          "the PLD accountant does not cover zcdp, of which only divergences are known; use the RDP accountant");
  }
  throw InternalError("an unknown mechanism");
}

}  // namespace chorus::inline privacy
