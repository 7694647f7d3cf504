#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace chorus::inline privacy {

/// How often one record may contribute in a run without sampling (DP-FTRL): at most `most` times, and at least
/// `separation` steps apart. A selector enforces it.
struct Participation {
  std::int64_t steps = 1;
  std::int64_t most = 1;
  std::int64_t separation = 1;
};

/// ConfigError where the limits contradict each other.
void validate(const Participation& participation);

/// The L2 sensitivity of C x for the lower triangular Toeplitz matrix C with these coefficients in its first column
/// (banded: few of them; BLT: as many as there are steps), where a row of x has norm at most 1. With non-negative,
/// non-increasing coefficients the worst participations are the steps 0, b, 2b, ... (Kalinin and Lampert 2024, theorem
/// 2), so it is exact. A Gaussian matrix mechanism whose noise has standard deviation s is one Gaussian mechanism with
/// noise s / sensitivity. ConfigError for other coefficients.
double toeplitz_sensitivity(std::span<const double> coefficients, const Participation& participation);

/// The first coefficients of the square root of the prefix sum: 1, 1/2, 3/8, 5/16, ... (Fichtenberger, Henzinger and
/// Upadhyay 2023).
std::vector<double> square_root_coefficients(std::int64_t count);

/// The coefficients 1, sum_j w_j, sum_j w_j d_j, sum_j w_j d_j^2, ... of a buffered linear Toeplitz matrix (Dvijotham
/// et al. 2024).
std::vector<double> blt_coefficients(std::span<const double> weights, std::span<const double> decays,
                                     std::int64_t count);

/// A bound on the L2 sensitivity of binary tree aggregation over `steps` leaves (Kairouz et al. 2021): a node of s
/// leaves holds at most ceil(s / separation) participations, and a level is worst when they fill as few nodes as
/// possible. Exact for one participation: the square root of the number of levels.
double tree_sensitivity(const Participation& participation);

}  // namespace chorus::inline privacy
