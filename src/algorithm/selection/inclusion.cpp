#include <algorithm>
#include <cmath>
#include <numeric>

#include "algorithm/selection/sampling.h"
#include "core/base/error.h"

namespace chorus::inline selection {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kNegligible = 1e-17;
constexpr double kExactWork = 2e7;

/// Entries of equal weight, which have equal probabilities.
struct WeightGroup {
  double weight;
  std::size_t members;
  double probability = 0;  // P(T_j < t) of a member
  double below = 0;        // P(fewer than `count` of the others have T_j < t), for a member
};

/// The pmf of 0 .. size-1 after one more trial; the tail is dropped.
void add_trial(std::vector<double>& pmf, double p) {
  for (std::size_t j = pmf.size() - 1; j > 0; --j) pmf[j] = pmf[j] * (1 - p) + pmf[j - 1] * p;
  pmf[0] *= 1 - p;
}

void add_trials(std::vector<double>& pmf, std::span<const WeightGroup> groups) {
  for (const WeightGroup& group : groups) {
    for (std::size_t m = 0; m < group.members; ++m) add_trial(pmf, group.probability);
  }
}

/// Leave-one-out by divide and conquer: `pmf` holds everything outside `groups`. Additions only, hence stable.
void leave_one_out(std::span<WeightGroup> groups, const std::vector<double>& pmf) {
  if (groups.size() == 1) {
    std::vector<double> others = pmf;
    for (std::size_t m = 1; m < groups[0].members; ++m) add_trial(others, groups[0].probability);
    groups[0].below = std::min(1.0, std::accumulate(others.begin(), others.end(), 0.0));
    return;
  }
  const std::size_t half = groups.size() / 2;
  for (const bool first : {true, false}) {
    std::vector<double> more = pmf;
    add_trials(more, first ? groups.subspan(half) : groups.first(half));
    leave_one_out(first ? groups.first(half) : groups.subspan(half), more);
  }
}

struct Moments {
  double mean = 0, variance = 0, third = 0;
  void add(double p, double times) {
    mean += times * p;
    variance += times * p * (1 - p);
    third += times * p * (1 - p) * (1 - 2 * p);
  }
};

/// P(N < count), N Poisson-binomial: Phi(x) + skewness (1 - x^2) phi(x) / 6 with a continuity correction.
double normal_below(const Moments& moments, double count) {
  if (moments.variance < 1e-12) return moments.mean < count ? 1 : 0;
  const double sigma = std::sqrt(moments.variance);
  const double x = (count - 0.5 - moments.mean) / sigma;
  const double density = std::exp(-0.5 * x * x) / std::sqrt(2 * kPi);
  const double skewness = moments.third / (moments.variance * sigma);
  return std::clamp(0.5 * std::erfc(-x / std::sqrt(2.0)) + skewness * (1 - x * x) * density / 6, 0.0, 1.0);
}

/// Chernoff bounds (valid for heterogeneous trials) on P(at least, or at most, `count`) at this mean.
double tail_bound(double mean, double count) {
  if (count <= 0) return std::exp(-mean);
  return std::exp(count - mean + count * std::log(mean / count));
}

/// Nodes in (-1, 1) and weights of Gauss-Legendre quadrature, by Newton's method on the polynomial.
struct GaussRule {
  static constexpr int kNodes = 16;
  double node[kNodes], weight[kNodes];

  GaussRule() {
    for (int i = 0; i < kNodes; ++i) {
      double x = std::cos(kPi * (i + 0.75) / (kNodes + 0.5));
      double slope = 1;
      for (int iteration = 0; iteration < 100; ++iteration) {
        double before = 0, here = 1;
        for (int j = 1; j <= kNodes; ++j) {
          const double next = ((2 * j - 1) * x * here - (j - 1) * before) / j;
          before = here;
          here = next;
        }
        slope = kNodes * (x * here - before) / (x * x - 1);
        const double change = here / slope;
        x -= change;
        if (std::abs(change) < 1e-16) break;
      }
      node[i] = x;
      weight[i] = 2 / ((1 - x * x) * slope * slope);
    }
  }
};

class SuccessiveInclusion {
 public:
  SuccessiveInclusion(std::vector<WeightGroup> groups, std::size_t count, bool exact)
      : groups_(std::move(groups)), count_(count), exact_(exact) {}

  std::vector<double> run() {
    // Before t = exp(begin) the probability is 1, after exp(end) it is 0.
    const double lowest = std::log(kNegligible / groups_.back().weight) - 40;
    const double highest = std::log(745 / groups_.front().weight);
    const double k = static_cast<double>(count_);
    const double begin =
        bisect(lowest, highest, [&](double mean) { return mean < k && tail_bound(mean, k) < kNegligible; });
    const double end =
        bisect(begin, highest, [&](double mean) { return mean < k || tail_bound(mean, k) > kNegligible; });
    std::vector<double> included(groups_.size());
    for (std::size_t g = 0; g < groups_.size(); ++g) included[g] = -std::expm1(-groups_[g].weight * std::exp(begin));

    const GaussRule rule;
    const auto panels = static_cast<std::size_t>(std::ceil((end - begin) / std::min(1.0, 2 / std::sqrt(k))));
    const double half = (end - begin) / static_cast<double>(panels) / 2;
    for (std::size_t panel = 0; panel < panels; ++panel) {
      for (int i = 0; i < GaussRule::kNodes; ++i) {
        const double t = std::exp(begin + half * (2 * static_cast<double>(panel) + 1 + rule.node[i]));
        fill(t);
        for (std::size_t g = 0; g < groups_.size(); ++g) {
          const double rate = groups_[g].weight * t;
          included[g] += half * rule.weight[i] * rate * std::exp(-rate) * groups_[g].below;
        }
      }
    }
    for (double& probability : included) probability = std::min(1.0, probability);
    return included;
  }

 private:
  Moments advance(double t) {
    Moments all;
    for (WeightGroup& group : groups_) {
      group.probability = -std::expm1(-group.weight * t);
      all.add(group.probability, static_cast<double>(group.members));
    }
    return all;
  }

  /// The largest x up to which `holds` is true for the mean number of arrivals at exp(x).
  template <typename Holds>
  double bisect(double low, double high, Holds holds) {
    for (int i = 0; i < 50; ++i) {
      const double middle = (low + high) / 2;
      (holds(advance(std::exp(middle)).mean) ? low : high) = middle;
    }
    return low;
  }

  /// Each group's `below` at t.
  void fill(double t) {
    const Moments all = advance(t);
    if (exact_) {
      std::vector<double> pmf(count_, 0);
      pmf[0] = 1;
      leave_one_out(groups_, pmf);
      return;
    }
    for (WeightGroup& group : groups_) {
      Moments others = all;
      others.add(group.probability, -1);
      group.below = normal_below(others, static_cast<double>(count_));
    }
  }

  std::vector<WeightGroup> groups_;  // by ascending weight
  std::size_t count_;
  bool exact_;
};

}  // namespace

std::vector<double> inclusion_probabilities(std::span<const double> weights, const InclusionRequest& request) {
  std::vector<std::size_t> order;
  double total = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    check(weights[i] >= 0 && std::isfinite(weights[i]), "a weight is negative or not a number");
    if (weights[i] > 0) order.push_back(i);
    total += weights[i];
  }
  std::vector<double> result(weights.size(), 0);
  if (request.count == 0 || order.empty()) return result;
  if (request.replacement) {
    for (const std::size_t i : order) {
      result[i] =
          order.size() == 1 ? 1 : -std::expm1(static_cast<double>(request.count) * std::log1p(-weights[i] / total));
    }
    return result;
  }
  if (request.count >= order.size()) {
    for (const std::size_t i : order) result[i] = 1;
    return result;
  }
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return weights[a] < weights[b]; });
  std::vector<WeightGroup> groups;
  for (const std::size_t i : order) {
    if (groups.empty() || groups.back().weight != weights[i]) groups.push_back({.weight = weights[i], .members = 0});
    ++groups.back().members;
  }
  const double work = static_cast<double>(order.size()) * static_cast<double>(request.count) *
                      std::log2(static_cast<double>(groups.size()) + 1);
  const std::vector<double> included =
      SuccessiveInclusion(groups, request.count, !request.force_normal && work <= kExactWork).run();
  std::size_t g = 0;
  for (const std::size_t i : order) {
    while (groups[g].weight != weights[i]) ++g;
    result[i] = included[g];
  }
  return result;
}

}  // namespace chorus::inline selection
