#include "algorithm/privacy/accountant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "algorithm/privacy/participation.h"
#include "algorithm/privacy/pld.h"
#include "algorithm/privacy/rdp.h"
#include "algorithm/privacy/shuffling.h"
#include "core/base/error.h"

namespace chorus::inline privacy {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr std::size_t kFewCells = std::size_t{1} << 17;

/// Values of other accountants (tests/golden/make_privacy.py).
const json& golden_values() {
  static const json values = json::parse(std::ifstream(CHORUS_SOURCE_DIR "/tests/golden/privacy.json"));
  return values;
}

Mechanism mechanism_of(const json& row, MechanismKind kind = MechanismKind::kGaussian) {
  return {.kind = kind,
          .noise = row["noise"],
          .sampling_rate = row.value("q", 1.0),
          .steps = row.value("steps", 1),
          .buckets = row.value("buckets", 2),
          .group = row.value("group", 1)};
}

/// dp_accounting is pessimistic on a coarser grid, so ours may be slightly below it.
void expect_near_upper(const json& row, MechanismKind kind, Adjacency adjacency) {
  const Mechanism m = mechanism_of(row, kind);
  const double epsilon = pld_epsilon({&m, 1}, adjacency, row["delta"], kFewCells), upper = row["upper"];
  EXPECT_LE(epsilon, upper + 0.005) << row;
  EXPECT_GE(epsilon, upper - std::max(1e-3, 3e-3 * upper)) << row;
}

// Balle and Wang 2018: delta(epsilon) of a Gaussian mechanism in closed form.
double gaussian_delta(double noise, double epsilon) {
  const auto phi = [](double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; };
  const double mu = 1 / noise;
  return phi(mu / 2 - epsilon / mu) - std::exp(epsilon) * phi(-mu / 2 - epsilon / mu);
}

TEST(Rdp, DivergencesMatchHighPrecisionQuadrature) {
  for (const json& row : golden_values()["renyi"]) {
    const double value = row["value"];
    EXPECT_NEAR(sampled_gaussian_rdp(row["q"], row["noise"], row["order"]), value, 1e-9 * value) << row;
  }
}

TEST(Rdp, EpsilonLiesBetweenOpacusAndDpAccounting) {
  ASSERT_GT(golden_values()["rdp"].size(), 100U);
  for (const json& row : golden_values()["rdp"]) {
    const Mechanism m = mechanism_of(row);
    const double epsilon = rdp_epsilon({&m, 1}, Adjacency::kAddRemove, row["delta"]);
    EXPECT_LE(epsilon, row["dp_accounting"].get<double>() * (1 + 1e-3) + 1e-12) << row;
    if (epsilon <= 0) {  // by total variation, which Opacus does not use
      EXPECT_EQ(pld_epsilon({&m, 1}, Adjacency::kAddRemove, row["delta"], kFewCells), 0) << row;
      continue;
    }
    // Opacus computes ln(A) with A near 1 in double precision, so its divergences are uncertain by 1e-15 per step.
    const double steps = row["steps"], uncertain = 1e-14 * steps;
    EXPECT_GE(epsilon, row["opacus"].get<double>() * (1 - 1e-6) - uncertain) << row;
  }
}

TEST(Pld, EpsilonLiesBetweenTheBoundsOfDpAccountingAndOpacus) {
  for (const json& row : golden_values()["pld"]) {
    const Mechanism m = mechanism_of(row);
    // Rare large losses need a fine grid beside the many tiny ones.
    const std::size_t cells = m.sampling_rate < 1e-4 && m.steps > 1000 ? std::size_t{1} << 20 : kFewCells;
    const double epsilon = pld_epsilon({&m, 1}, Adjacency::kAddRemove, row["delta"], cells);
    EXPECT_LE(epsilon, row["upper"].get<double>() + 0.005) << row;
    EXPECT_GE(epsilon, row["lower"].get<double>() - 1e-3) << row;
    EXPECT_LE(epsilon, row["prv"].get<double>() + 0.005) << row;
    EXPECT_GE(epsilon, row["prv"].get<double>() - 0.015) << row;  // an upper bound with an error of 0.01
  }
}

TEST(Pld, MatchesTheClosedFormOfAGaussianFromAbove) {
  for (const double noise : {0.1, 1.0, 80.0}) {
    for (const double delta : {1e-3, 1e-10}) {
      for (const double steps : {1.0, 400.0}) {
        const Mechanism m{.noise = noise * std::sqrt(steps), .steps = static_cast<std::int64_t>(steps)};
        const double epsilon = pld_epsilon({&m, 1}, Adjacency::kAddRemove, delta, std::size_t{1} << 15);
        if (epsilon <= 0) {
          EXPECT_LE(gaussian_delta(noise, 0), delta);
          continue;
        }
        EXPECT_LE(gaussian_delta(noise, epsilon), delta * (1 + 1e-7)) << noise << " " << delta;
        EXPECT_GE(gaussian_delta(noise, epsilon * (1 - 1e-4)), delta) << noise << " " << delta;
      }
    }
  }
}

TEST(Pld, OtherMechanismsMatchDpAccounting) {
  for (const json& row : golden_values()["replace"])
    expect_near_upper(row, MechanismKind::kGaussian, Adjacency::kReplace);
  for (const json& row : golden_values()["group"])
    expect_near_upper(row, MechanismKind::kGaussian, Adjacency::kAddRemove);
  for (const json& row : golden_values()["laplace"])
    expect_near_upper(row, MechanismKind::kLaplace, Adjacency::kAddRemove);
  for (const json& row : golden_values()["discrete_gaussian"]) {
    expect_near_upper(row, MechanismKind::kDiscreteGaussian, Adjacency::kAddRemove);
  }
  for (const json& row : golden_values()["discrete_laplace"]) {
    expect_near_upper(row, MechanismKind::kDiscreteLaplace, Adjacency::kAddRemove);
  }
  for (const json& row : golden_values()["randomized_response"]) {
    expect_near_upper(row, MechanismKind::kRandomizedResponse, Adjacency::kReplace);
  }
}

TEST(Pld, ComposesDifferentMechanisms) {
  const std::vector<Mechanism> both{{.noise = 1.5, .sampling_rate = 0.02, .steps = 500},
                                    {.kind = MechanismKind::kLaplace, .noise = 4, .steps = 10}};
  const json& row = golden_values()["mixed"];
  const double epsilon = pld_epsilon(both, Adjacency::kAddRemove, row["delta"], kFewCells);
  EXPECT_NEAR(epsilon, row["upper"].get<double>(), 0.003);
}

// Two losses, +l and -l, so the sum is binomial. Where the largest sum is more likely than delta, epsilon is close to
// it.
TEST(Pld, MatchesTheBinomialOfTwoLossesFromAbove) {
  for (const double scale : {0.7, 2.4, 2.6, 2.615863327636872, 2.62, 9.3}) {
    for (const auto& [steps, delta] : {std::pair(1, 1e-9), std::pair(34, 1.7093876555493145e-09), std::pair(34, 1e-5),
                                       std::pair(200, 1e-6), std::pair(1000, 1e-10)}) {
      const double l = 1 / scale, p = 1 / (1 + std::exp(-l));
      const auto hidden = [&, n = steps](double epsilon) {
        double sum = 0;
        for (int k = 0; k <= n; ++k) {
          const double loss = (2 * k - n) * l;
          if (loss <= epsilon) continue;
          sum += std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) + k * std::log(p) +
                          (n - k) * std::log1p(-p)) *
                 -std::expm1(epsilon - loss);
        }
        return sum;
      };
      double low = 0, high = steps * l;
      for (int i = 0; i < 60; ++i) {
        const double middle = (low + high) / 2;
        (hidden(middle) > delta ? low : high) = middle;
      }
      const Mechanism m{.kind = MechanismKind::kDiscreteLaplace, .noise = scale, .steps = steps};
      const double epsilon = account({.mechanisms = {m}, .delta = delta}, AccountantKind::kPld).epsilon;
      EXPECT_GE(epsilon, low * (1 - 1e-9)) << scale << " " << steps << " " << delta;
      EXPECT_LE(epsilon, low * (1 + 2e-4) + 1e-4) << scale << " " << steps << " " << delta;
    }
  }
}

TEST(Pld, NeverExceedsRdpAtTheExtremes) {
  for (const double rate : {1e-5, 0.01, 0.5}) {
    for (const double noise : {0.1, 1.0, 100.0}) {
      for (const std::int64_t steps : {1, 1'000'000}) {
        const Mechanism m{.noise = noise, .sampling_rate = rate, .steps = steps};
        const double rdp = rdp_epsilon({&m, 1}, Adjacency::kAddRemove, 1e-6);
        const double pld = pld_epsilon({&m, 1}, Adjacency::kAddRemove, 1e-6, kFewCells);
        EXPECT_LE(pld, rdp * 1.001 + 1e-3) << rate << " " << noise << " " << steps;
      }
    }
  }
}

TEST(Pld, MoreCellsNeverCostMore) {
  const Mechanism m{.noise = 0.8, .sampling_rate = 0.05, .steps = 100};
  double before = INFINITY;
  for (int bits = 12; bits <= 18; bits += 2) {
    const double epsilon = pld_epsilon({&m, 1}, Adjacency::kAddRemove, 1e-5, std::size_t{1} << bits);
    EXPECT_LE(epsilon, before * (1 + 1e-6));
    before = epsilon;
  }
}

TEST(Account, PureMechanismsNeedNoDelta) {
  const Mechanism laplace{.kind = MechanismKind::kLaplace, .noise = 2, .steps = 3};
  EXPECT_NEAR(account({.mechanisms = {laplace}, .delta = 0}, AccountantKind::kPld).epsilon, 1.5, 1e-12);
  const Mechanism coin{.kind = MechanismKind::kRandomizedResponse, .noise = 0.5};
  const Releases releases{.mechanisms = {coin}, .adjacency = Adjacency::kReplace, .delta = 0};
  EXPECT_NEAR(account(releases, AccountantKind::kPld).epsilon, std::log(3), 1e-12);
}

TEST(Account, NothingReleasedCostsNothing) {
  for (const AccountantKind kind : {AccountantKind::kRdp, AccountantKind::kPld}) {
    EXPECT_EQ(account({.mechanisms = {{.noise = 1, .sampling_rate = 0, .steps = 100}}}, kind).epsilon, 0);
    EXPECT_EQ(account({.mechanisms = {{.noise = 1, .steps = 0}}}, kind).epsilon, 0);
  }
}

TEST(Account, RefusesWhatIsNotProven) {
  const auto refusal = [](const Mechanism& m, Adjacency adjacency, double delta, AccountantKind kind) -> std::string {
    try {
      account({.mechanisms = {m}, .adjacency = adjacency, .delta = delta}, kind);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  };
  const Adjacency add = Adjacency::kAddRemove, replace = Adjacency::kReplace;
  const AccountantKind pld = AccountantKind::kPld, rdp = AccountantKind::kRdp;
  EXPECT_THAT(refusal({.noise = 0}, add, 1e-5, pld), HasSubstr("infinite"));
  EXPECT_THAT(refusal({.noise = -1}, add, 1e-5, pld), HasSubstr("positive"));
  EXPECT_THAT(refusal({.noise = NAN}, add, 1e-5, rdp), HasSubstr("positive"));
  EXPECT_THAT(refusal({.noise = 1, .sampling_rate = 1.1}, add, 1e-5, rdp), HasSubstr("probability"));
  EXPECT_THAT(refusal({.noise = 1, .sampling_rate = -0.1}, add, 1e-5, pld), HasSubstr("probability"));
  EXPECT_THAT(refusal({.noise = 1, .steps = -1}, add, 1e-5, pld), HasSubstr("steps"));
  EXPECT_THAT(refusal({.noise = 1}, add, 0, pld), HasSubstr("delta = 0"));
  EXPECT_THAT(refusal({.noise = 1}, add, 1, pld), HasSubstr("delta"));
  EXPECT_THAT(refusal({.noise = 1}, add, -1e-5, rdp), HasSubstr("delta"));
  EXPECT_THAT(refusal({.kind = MechanismKind::kLaplace, .noise = 1, .sampling_rate = 0.1}, add, 1e-5, rdp),
              HasSubstr("PLD"));
  EXPECT_THAT(refusal({.kind = MechanismKind::kLaplace, .noise = 1, .sampling_rate = 0.1}, replace, 1e-5, pld),
              HasSubstr("add_remove"));
  EXPECT_THAT(refusal({.noise = 1, .sampling_rate = 0.1, .group = 2}, replace, 1e-5, pld), HasSubstr("add_remove"));
  EXPECT_THAT(refusal({.kind = MechanismKind::kSkellam, .noise = 10}, add, 1e-5, pld), HasSubstr("RDP"));
  EXPECT_THAT(refusal({.kind = MechanismKind::kRandomizedResponse, .noise = 0.5}, add, 1e-5, pld),
              HasSubstr("replace"));
}

TEST(Calibrate, FindsTheSmallestNoise) {
  for (const AccountantKind kind : {AccountantKind::kRdp, AccountantKind::kPld}) {
    Releases releases{.mechanisms = {{.sampling_rate = 1, .steps = 10}}, .delta = 1e-6};
    const double noise = calibrate(releases, 2.0, kind);
    releases.mechanisms[0].noise = noise;
    EXPECT_LE(account(releases, kind).epsilon, 2.0);
    releases.mechanisms[0].noise = noise * 0.9995;
    EXPECT_GT(account(releases, kind).epsilon, 2.0);
  }
}

// The Rényi divergence between a Skellam variable and its shift, summed with the recurrence of Bessel functions.
TEST(Rdp, SkellamBoundHoldsForAScalar) {
  const double variance = 16, order = 4;
  // p(k) = e^-v I_|k|(v), here by Miller's backward recurrence.
  constexpr int kMost = 400;
  std::vector<long double> p(kMost + 2, 0);
  p[kMost] = 1e-4000L;
  for (int k = kMost; k > 0; --k)
    p[static_cast<std::size_t>(k - 1)] =
        p[static_cast<std::size_t>(k + 1)] + 2.0L * k / variance * p[static_cast<std::size_t>(k)];
  long double total = p[0];
  for (int k = 1; k <= kMost; ++k) total += 2 * p[static_cast<std::size_t>(k)];
  const auto at = [&](int k) { return p[static_cast<std::size_t>(std::abs(k))] / total; };
  long double moment = 0;
  for (int k = -100; k <= 100; ++k)
    moment +=
        std::pow(at(k), static_cast<long double>(order)) * std::pow(at(k - 1), static_cast<long double>(1 - order));
  const double exact = static_cast<double>(std::log(moment)) / (order - 1);
  const double bound = step_rdp({.kind = MechanismKind::kSkellam, .noise = 4}, Adjacency::kAddRemove, order);
  EXPECT_GE(bound, exact);
  EXPECT_LE(bound, exact * 1.2);
}

TEST(Participation, ToeplitzSensitivityEqualsBruteForce) {
  for (const json& row : golden_values()["toeplitz"]) {
    const std::vector<double> coefficients = row["coefficients"];
    const Participation p{.steps = row["steps"], .most = row["most"], .separation = row["separation"]};
    EXPECT_NEAR(toeplitz_sensitivity(coefficients, p), row["value"].get<double>(), 1e-12) << row;
  }
  EXPECT_THROW(toeplitz_sensitivity(std::vector<double>{1, -0.5}, {.steps = 4}), ConfigError);
  EXPECT_THROW(toeplitz_sensitivity(std::vector<double>{1, 0.2, 0.5}, {.steps = 4}), ConfigError);
}

TEST(Participation, TreeBoundIsNeverBelowBruteForce) {
  for (const json& row : golden_values()["tree"]) {
    const Participation p{.steps = row["steps"], .most = row["most"], .separation = row["separation"]};
    const double exact = row["value"];
    EXPECT_GE(tree_sensitivity(p), exact * (1 - 1e-12)) << row;
    EXPECT_LE(tree_sensitivity(p), exact * (p.most == 1 ? 1 + 1e-12 : 1.3)) << row;
  }
}

// The exact pair of the proof (Feldman, McMillan and Talwar 2021, theorem 3.2): A ~ Bin(C, 1/2), C ~ Bin(n-1, e^-e0).
TEST(Shuffling, ClosedFormIsAboveTheClonesOfItsProof) {
  const double local = 1, delta = 1e-4;
  const int n = 2000;
  const double epsilon = shuffled_epsilon(local, n, delta);
  EXPECT_LT(epsilon, local);
  const auto log_binomial = [](int count, int k, double p) {
    return std::lgamma(count + 1) - std::lgamma(k + 1) - std::lgamma(count - k + 1) + k * std::log(p) +
           (count - k) * std::log1p(-p);
  };
  const double truth = std::exp(local) / (std::exp(local) + 1);
  double reached = 0;
  for (int c = 0; c < n; ++c) {
    const double weight = std::exp(log_binomial(n - 1, c, std::exp(-local)));
    if (weight < 1e-12) continue;
    const auto half = [&](int a) { return a < 0 || a > c ? 0.0 : std::exp(log_binomial(c, a, 0.5)); };
    for (int a = 0; a <= c + 1; ++a) {
      const double p = truth * half(a - 1) + (1 - truth) * half(a), q = (1 - truth) * half(a - 1) + truth * half(a);
      reached += weight * std::max(p - std::exp(epsilon) * q, 0.0);
    }
  }
  EXPECT_LE(reached, delta);
  EXPECT_THROW(shuffled_epsilon(8, 100, 1e-6), ConfigError);
}

TEST(Explain, SaysWhatIsProtected) {
  const Releases releases{.mechanisms = {{.noise = 1, .sampling_rate = 0.1, .steps = 10}}, .delta = 1e-5};
  const std::string text = explain(releases, account(releases, AccountantKind::kRdp));
  EXPECT_THAT(text, HasSubstr("Poisson"));
  EXPECT_THAT(text, HasSubstr("in the data or not"));
  EXPECT_THAT(text, HasSubstr("delta 1e-05"));
}

}  // namespace
}  // namespace chorus::inline privacy
