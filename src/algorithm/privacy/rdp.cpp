#include "algorithm/privacy/rdp.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/error.h"

namespace chorus::inline privacy {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double log_add(double a, double b) {
  const double high = std::max(a, b), low = std::min(a, b);
  return low == -kInfinity ? high : high + std::log1p(std::exp(low - high));
}

// ln(e^x - 1), x > 0
double log_expm1(double x) { return x > 30 ? x + std::log1p(-std::exp(-x)) : std::log(std::expm1(x)); }

// ln(1 + e^x)
double log1p_exp(double x) { return x > 30 ? x + std::exp(-x) : std::log1p(std::exp(x)); }

double log_binomial(double n, double k) { return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1); }

// ln(A - 1) = ln sum_{k=2}^n C(n,k) (1-q)^{n-k} q^k (e^{k(k-1)/(2 s^2)} - 1): the binomial weights sum to 1.
double log_excess_at_integer(double q, double s, double order) {
  double sum = -kInfinity;
  for (double k = 2; k <= order; ++k) {
    const double growth = log_expm1(k * (k - 1) / (2 * s * s));
    sum = log_add(sum, log_binomial(order, k) + (order - k) * std::log1p(-q) + k * std::log(q) + growth);
  }
  return sum;
}

// ln((1+u)^a - 1 - a u), which is ln of a non-negative number for a > 1 and u > -1; log_ratio = ln(1 + u).
double log_convexity(double u, double log_ratio, double a) {
  if (std::abs(u * a) < 0.01 && std::abs(u) < 0.01) {
    double term = a * (a - 1) / 2 * u * u, sum = term;
    for (int k = 3; k <= 9; ++k) sum += term *= (a - k + 1) / k * u;
    return std::log(sum);
  }
  if (a * log_ratio > 30) return a * log_ratio + std::log1p(-(1 + a * u) * std::exp(-a * log_ratio));
  return std::log(std::max(std::expm1(a * log_ratio) - a * u, 0.0));
}

// ln(A - 1) = ln E[(1+u)^a - 1 - a u] with u = q (e^w - 1), because E[u] = 0. The step of the trapezoidal rule follows
// from the distance of the integrand's singularities to the real axis, pi s^2.
double log_excess_by_integral(double q, double s, double a) {
  const double step = std::min(s / 2, s * s / 2);
  const double low = -14 * s, high = a + 14 * s;
  const double density = std::log(step / s) - 0.5 * std::log(2 * M_PI);
  double sum = -kInfinity;
  for (double z = low; z <= high; z += step) {
    const double w = (2 * z - 1) / (2 * s * s);
    const double log_ratio =
        w > 30 ? w + std::log(q) + std::log1p((1 - q) / q * std::exp(-w)) : std::log1p(q * std::expm1(w));
    const double u = w > 30 ? std::exp(std::min(log_ratio, 700.0)) : q * std::expm1(w);
    sum = log_add(sum, log_convexity(u, log_ratio, a) + density - z * z / (2 * s * s));
  }
  return sum;
}

double log_moment(double q, double s, double order) {
  if (order == std::floor(order)) return log1p_exp(log_excess_at_integer(q, s, order));
  // ln A is convex in the order and 0 at 1, so a chord between integers is an upper bound.
  if (s < 0.05) {
    const double below = std::floor(order), weight = order - below;
    const double low = below > 1 ? log_moment(q, s, below) : 0;
    return (1 - weight) * low + weight * log_moment(q, s, below + 1);
  }
  return log1p_exp(log_excess_by_integral(q, s, order));
}

double laplace_rdp(double scale, double a) {
  const double grow = std::log(a / (2 * a - 1)) + (a - 1) / scale;
  const double shrink = std::log((a - 1) / (2 * a - 1)) - a / scale;
  return log_add(grow, shrink) / (a - 1);
}

double randomized_response_rdp(double p, double buckets, double a) {
  const double other = p / buckets, truth = 1 - p + other;
  double sum =
      log_add(a * std::log(truth) + (1 - a) * std::log(other), a * std::log(other) + (1 - a) * std::log(truth));
  if (buckets > 2) sum = log_add(sum, std::log((buckets - 2) * other));
  return std::max(sum / (a - 1), 0.0);
}

// Agarwal, Kairouz and Liu 2021, theorem 3.5, with variance mu = sigma^2. It is proven for whole orders; divergences
// grow with the order, so the next whole one bounds those in between.
double skellam_rdp(const Mechanism& m, double scale, double order) {
  const double a = std::ceil(order);
  const double l2 = m.sensitivity * scale, l1 = m.l1_sensitivity * scale;
  const double mu = m.noise * m.noise * m.sensitivity * m.sensitivity;
  const double extra = std::min(((2 * a - 1) * l2 * l2 + 6 * l1) / (4 * mu * mu), 3 * l1 / (2 * mu));
  return a * l2 * l2 / (2 * mu) + extra;
}

[[noreturn]] void refuse(const Mechanism& m) {
  throw ConfigError(fmt::format(
      "the RDP accountant does not cover {} with this sampling, group and adjacency; use the PLD accountant",
      name_of(m.kind)));
}

}  // namespace

const std::vector<double>& rdp_orders() {
  static const std::vector<double> orders = [] {
    std::vector<double> result;
    for (int x = 1; x < 100; ++x) result.push_back(1 + x / 10.0);
    for (int x = 11; x < 64; ++x) result.push_back(x);
    for (const double x : {128.0, 256.0, 512.0, 1024.0}) result.push_back(x);
    return result;
  }();
  return orders;
}

double sampled_gaussian_rdp(double q, double s, double order) {
  check(order > 1 && s > 0 && q >= 0 && q <= 1, "a Rényi divergence needs an order above 1, noise and a probability");
  if (q <= 0) return 0;
  if (q >= 1) return order / (2 * s * s);
  return log_moment(q, s, order) / (order - 1);
}

double step_rdp(const Mechanism& m, Adjacency adjacency, double order) {
  const double scale = static_cast<double>(m.group) * (adjacency == Adjacency::kReplace ? 2 : 1);
  const bool sampled = m.sampling_rate < 1;
  switch (m.kind) {
    case MechanismKind::kGaussian:
      if (sampled && scale > 1) refuse(m);
      return sampled_gaussian_rdp(m.sampling_rate, m.noise / scale, order);
    case MechanismKind::kLaplace:
      if (sampled) refuse(m);
      return laplace_rdp(m.noise / scale, order);
    case MechanismKind::kDiscreteGaussian:
      if (sampled) refuse(m);
      return order * scale * scale / (2 * m.noise * m.noise);  // Canonne, Kamath and Steinke 2020, theorem 4
    case MechanismKind::kDiscreteLaplace:
      refuse(m);
    case MechanismKind::kSkellam:
      return skellam_rdp(m, scale, order);
    case MechanismKind::kRandomizedResponse:
      return randomized_response_rdp(m.noise, static_cast<double>(m.buckets), order);
    case MechanismKind::kConcentrated:
      return order * scale * scale / (2 * m.noise * m.noise);
  }
  throw InternalError("an unknown mechanism");
}

double epsilon_of_rdp(std::span<const double> orders, std::span<const double> divergences, double delta) {
  check(orders.size() == divergences.size(), "one divergence per order");
  if (delta <= 0) return kInfinity;
  double best = kInfinity;
  for (std::size_t i = 0; i < orders.size(); ++i) {
    const double a = orders[i], d = divergences[i];
    // Total variation <= sqrt(1 - exp(-KL)) and KL <= D (Bretagnolle and Huber 1979).
    if (delta * delta + std::expm1(-d) >= 0) return 0;
    best = std::min(best, d + std::log1p(-1 / a) - (std::log(delta) + std::log(a)) / (a - 1));
  }
  return std::max(best, 0.0);
}

double rdp_epsilon(std::span<const Mechanism> mechanisms, Adjacency adjacency, double delta) {
  const std::vector<double>& orders = rdp_orders();
  std::vector<double> sums(orders.size(), 0);
  for (const Mechanism& m : mechanisms) {
    if (is_nothing(m)) continue;
    for (std::size_t i = 0; i < orders.size(); ++i) {
      sums[i] += static_cast<double>(m.steps) * step_rdp(m, adjacency, orders[i]);
    }
  }
  if (std::all_of(sums.begin(), sums.end(), [](double x) { return x <= 0; })) return 0;
  return epsilon_of_rdp(orders, sums, delta);
}

}  // namespace chorus::inline privacy
