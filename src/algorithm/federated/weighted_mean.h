#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace chorus::inline federated {

/// The weighted mean of vectors that arrive one by one, in any order, from a known number of slots: sum_k w_k x_k /
/// sum_k w_k. Eight neighbours are added in one pass over memory, and their sums pairwise over a fixed binary tree. The
/// bits do not depend on the order of arrival, and the rounding error grows with the logarithm of the number of slots.
/// While vectors arrive roughly in slot order, only about that many sums are held.
///
///     WeightedMean mean(cohort.size());
///     for (Reply& reply : replies) reply.ok() ? mean.add(reply.slot, weight, update) : mean.skip(reply.slot);
///     at::Tensor average = mean.result();
class WeightedMean {
 public:
  explicit WeightedMean(std::size_t slots);

  /// `x` is held until its neighbours have arrived; do not modify it before.
  void add(std::size_t slot, double weight, const at::Tensor& x);
  void skip(std::size_t slot);
  /// The sum of all added vectors of a group of kMostTerms neighbours, as another WeightedMean's `sum` of them, with
  /// the weight of each slot that is in it. No slot of the group may be added or skipped besides.
  void add_group(std::size_t group, const std::map<std::size_t, double>& weights, const at::Tensor& sum);

  /// The mean over the added vectors; other slots count as skipped. Undefined when the weights sum to 0.
  at::Tensor result();
  /// The same without the division.
  at::Tensor sum();
  std::size_t slots() const { return slots_; }
  double weight() const;
  /// Partial sums held now.
  std::size_t held() const;

 private:
  using Node = std::pair<unsigned, std::size_t>;  // level, index within the level
  void meet(std::size_t group);
  void settle(Node from, at::Tensor sum);
  std::pair<Node, std::vector<at::Tensor>> take_siblings(Node node);
  at::Tensor spare_like(const at::Tensor& x);

  std::size_t slots_;
  unsigned depth_ = 0;
  std::vector<bool> known_;
  std::vector<double> weights_;
  std::map<std::size_t, at::Tensor> waiting_;  // waiting for their neighbours
  std::vector<at::Tensor> spare_;              // memory of sums already added to others, for reuse
  std::map<Node, at::Tensor> sums_;  // of finished nodes whose sibling is not finished; undefined: empty subtree
};

}  // namespace chorus::inline federated
