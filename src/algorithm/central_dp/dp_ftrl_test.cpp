#include "algorithm/central_dp/dp_ftrl.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "algorithm/central_dp/clipped_sum.h"
#include "core/base/error.h"
#include "tests/support.h"

namespace chorus::inline central_dp {
namespace {

constexpr std::int64_t kSteps = 37;

at::Tensor no_noise(std::int64_t size) { return at::zeros({size}, at::kLong); }

// Independent deviation 1000, enough to make rounding invisible.
at::Tensor thousand(std::int64_t size) { return (at::randn({size}, at::kDouble) * 1000).round().to(at::kLong); }

/// First column of the inverse of a lower triangular Toeplitz matrix.
std::vector<double> inverse_column(const std::vector<double>& c, std::int64_t steps) {
  std::vector<double> result;
  for (std::int64_t t = 0; t < steps; ++t) {
    double value = t == 0 ? 1 : 0;
    for (std::int64_t j = 1; j <= t && j < static_cast<std::int64_t>(c.size()); ++j) {
      value -= c[static_cast<std::size_t>(j)] * result[static_cast<std::size_t>(t - j)];
    }
    result.push_back(value);
  }
  return result;
}

/// Variance of the noise of each prefix sum, for noise of deviation 1.
std::vector<double> prefix_variances(const MatrixConfig& config, std::int64_t steps) {
  std::vector<double> result;
  if (config.kind == MatrixKind::kTree) {
    for (std::int64_t t = 1; t <= steps; ++t)
      result.push_back(__builtin_popcountll(static_cast<unsigned long long>(t)));
    return result;
  }
  const BltParameters blt = blt_parameters(config.buffers, steps);
  const auto inverse =
      inverse_column(config.kind == MatrixKind::kBanded ? square_root_coefficients(config.bands)
                                                        : blt_coefficients(blt.weights, blt.decays, steps),
                     steps);
  double prefix = 0, squares = 0;
  for (const double value : inverse) {
    prefix += value;
    squares += prefix * prefix;
    result.push_back(squares);
  }
  return result;
}

class EveryMatrix : public testing::TestWithParam<MatrixKind> {};

TEST_P(EveryMatrix, WithoutNoiseReleasesTheSumsThemselves) {
  CorrelatedSums sums({GetParam(), 5, 4}, kSteps);
  at::manual_seed(3);
  for (std::int64_t t = 0; t < kSteps; ++t) {
    const at::Tensor sum = at::randint(-1'000'000, 1'000'000, {50}, at::kLong);
    EXPECT_LE((sums.release(sum, &no_noise) - sum).abs().max().item<double>(), 3) << t;
  }
  EXPECT_THROW(sums.release(at::zeros({50}, at::kLong), &no_noise), InternalError) << "one more than accounted for";
}

TEST_P(EveryMatrix, PrefixSumsHaveTheNoiseOfTheMatrix) {
  const MatrixConfig config{GetParam(), 5, 4};
  constexpr std::int64_t kColumns = 4000;
  CorrelatedSums sums(config, kSteps);
  at::manual_seed(5);
  at::Tensor prefix = at::zeros({kColumns}, at::kDouble);
  const auto expected = prefix_variances(config, kSteps);
  for (std::int64_t t = 0; t < kSteps; ++t) {
    prefix.add_(sums.release(at::zeros({kColumns}, at::kLong), &thousand));
    const double variance = prefix.square().mean().item<double>() / 1e6, wanted = expected[static_cast<std::size_t>(t)];
    EXPECT_NEAR(variance, wanted, 6 * wanted * std::sqrt(2.0 / kColumns) + 0.01) << t;
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryMatrix, testing::Values(MatrixKind::kTree, MatrixKind::kBanded, MatrixKind::kBlt));

TEST(CorrelatedNoise, BltIsCloseToTheSquareRootOfThePrefixSum) {
  const auto exact = square_root_coefficients(500);
  const BltParameters blt = blt_parameters(6, 500);
  const auto near = blt_coefficients(blt.weights, blt.decays, 500);
  for (std::size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(near[i] / exact[i], 1, 0.12) << i;
}

// What correlation is for: less noise in the model at the same privacy (largest variance of a prefix times sensitivity
// squared; one participation).
TEST(CorrelatedNoise, BeatsIndependentNoise) {
  const Participation once{.steps = 256, .most = 1, .separation = 256};
  const auto cost = [&](const MatrixConfig& config) {
    const auto variances = prefix_variances(config, 256);
    return *std::max_element(variances.begin(), variances.end()) * std::pow(matrix_sensitivity(config, once), 2);
  };
  const double independent = 256, tree = cost({MatrixKind::kTree}), blt = cost({MatrixKind::kBlt, 8, 6}),
               banded = cost({MatrixKind::kBanded, 64, 6});
  EXPECT_LT(tree, independent / 3);
  EXPECT_LT(blt, tree / 3);
  EXPECT_LT(banded, independent / 3);
}

TEST(DpFtrl, ChargesTheWholeRunOnceAndAgainAfterARestart) {
  const TemporaryFolder folder;
  DpFtrlConfig config{.epsilon = 4, .delta = 1e-5, .separation = 5, .restarts = 1, .copy = "none"};
  const AggregationSetting setting{.folder = folder.path(), .clients = 50, .clients_per_round = 4, .rounds = 20};
  {
    DpFtrl first(config);
    first.prepare(setting);
    EXPECT_FALSE(first.exhausted());
    EXPECT_EQ(first.privacy()->charges, 0);
  }
  // What aggregate() charges, without clients.
  BudgetLedger({.file = folder.path() / "privacy.ledger"}, Adjacency::kAddRemove).charge({.noise = 1.5}, "20 rounds");
  DpFtrl resumed(config);
  resumed.prepare(setting);
  EXPECT_EQ(resumed.privacy()->charges, 1);
  EXPECT_GT(resumed.privacy()->epsilon, 1);
  BudgetLedger::Place place{.file = folder.path() / "privacy.ledger"};
  EXPECT_THROW(BudgetLedger(place, Adjacency::kAddRemove), DataError) << "one process at a time";
}

}  // namespace
}  // namespace chorus::inline central_dp
