#include "algorithm/federated/weighted_mean.h"

#include <numeric>

#include "core/error.h"

namespace chorus {

WeightedMean::WeightedMean(std::size_t slots) : slots_(slots), known_(slots, false), weights_(slots, 0.0) {
  while ((std::size_t{1} << depth_) < slots) ++depth_;
  // The leaves beyond the slots are empty; whole empty subtrees settle at once.
  for (std::size_t end = std::size_t{1} << depth_, at = slots; at < end;) {
    unsigned level = 0;
    while (at % (std::size_t{2} << level) == 0 && at + (std::size_t{2} << level) <= end) ++level;
    settle({level, at >> level}, {});
    at += std::size_t{1} << level;
  }
}

void WeightedMean::add(std::size_t slot, double weight, const at::Tensor& x) {
  check(slot < slots_ && !known_[slot], "a slot is filled once");
  known_[slot] = true;
  weights_[slot] = weight;
  settle({0, slot}, x.mul(weight));
}

void WeightedMean::skip(std::size_t slot) {
  check(slot < slots_ && !known_[slot], "a slot is filled once");
  known_[slot] = true;
  settle({0, slot}, {});
}

void WeightedMean::settle(Node node, at::Tensor sum) {
  for (; node.first < depth_; node = {node.first + 1, node.second / 2}) {
    const auto sibling = sums_.find({node.first, node.second ^ 1});
    if (sibling == sums_.end()) break;
    at::Tensor other = sibling->second;
    sums_.erase(sibling);
    // a + b is b + a in floating point, so which of the two is kept does not matter.
    if (!sum.defined()) {
      sum = other;
    } else if (other.defined()) {
      sum.add_(other);
    }
  }
  sums_[node] = sum;
}

double WeightedMean::weight() const { return std::accumulate(weights_.begin(), weights_.end(), 0.0); }

std::size_t WeightedMean::held() const {
  std::size_t count = 0;
  for (const auto& entry : sums_) count += entry.second.defined() ? 1 : 0;
  return count;
}

at::Tensor WeightedMean::result() {
  for (std::size_t slot = 0; slot < slots_; ++slot) {
    if (!known_[slot]) skip(slot);
  }
  const double total = weight();
  if (total == 0 || sums_.empty()) return {};
  at::Tensor sum = sums_.begin()->second;
  return sum.defined() ? sum.div_(total) : sum;
}

}  // namespace chorus
