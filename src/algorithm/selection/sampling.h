#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/base/client_id.h"
#include "core/base/rng.h"

namespace chorus::inline selection {

/// `count` of the clients, all subsets and orders equally likely. O(clients).
std::vector<ClientId> sample_uniform(std::vector<ClientId> clients, std::size_t count, RandomStream& stream);

/// Successive sampling: `count` indices one by one, each with a probability proportional to its weight among the
/// remaining ones. Implemented with exponential keys E_i / w_i, of which the smallest are taken (Efraimidis and
/// Spirakis 2006): exactly the same distribution, because exponentials are memoryless. Weights must be positive; count
/// is at most their number. O(n + count log count); one draw per entry.
std::vector<std::size_t> sample_successive(std::span<const double> weights, std::size_t count, RandomStream& stream);

/// `count` independent indices, each with probability proportional to its weight. O(n + count log n).
std::vector<std::size_t> sample_with_replacement(std::span<const double> weights, std::size_t count,
                                                 RandomStream& stream);

/// The probability that each entry is drawn at least once in `count` draws.
///
/// With replacement: 1 - (1 - p_i)^count. Without (successive sampling), with T_j ~ Exp(w_j) independent:
///
///     pi_i = integral over t > 0 of  w_i exp(-w_i t) P(fewer than `count` of the others have T_j < t)  dt
///
/// where that number is Poisson-binomial. The integral uses Gauss-Legendre quadrature in log t (error below 1e-10 in
/// all tests); the Poisson-binomial is computed exactly while n count log2(distinct weights) stays below about 1e8 (n =
/// 10,000, count = 800: exact, seconds), beyond that by a normal approximation with its skewness term, whose error in
/// pi_i is below 1e-5 when count and n - count are at least 100. `force_normal` always uses the approximation. Entries
/// of weight 0 get 0; a count of at least the number of positive weights gives 1.
///
/// pi_i is NOT proportional to w_i unless count is 1: heavy clients saturate. We read "P[m in S_t] proportional to
/// f(n_m)" of Dupuy et al. 2022 as the probability of each draw.
struct InclusionRequest {
  std::size_t count = 1;
  bool replacement = false;
  bool force_normal = false;
};
std::vector<double> inclusion_probabilities(std::span<const double> weights, const InclusionRequest& request);

}  // namespace chorus::inline selection
