#include "algorithm/federated/weighted_mean.h"

#include <numeric>

#include "core/error.h"

namespace chorus {

WeightedMean::WeightedMean(std::size_t slots) : slots_(slots), known_(slots, false), weights_(slots, 0.0) {
  while ((std::size_t{1} << depth_) < slots) ++depth_;
  // The leaves beyond the slots are empty; whole empty subtrees settle at once.
  for (std::size_t end = std::size_t{1} << depth_, at = slots; at < end;) {
    if (at % 2 == 1) {  // its neighbour is a slot, which knows that it is alone
      ++at;
      continue;
    }
    unsigned level = 1;
    while (at % (std::size_t{2} << level) == 0 && at + (std::size_t{2} << level) <= end) ++level;
    settle({level, at >> level}, {});
    at += std::size_t{1} << level;
  }
}

void WeightedMean::add(std::size_t slot, double weight, const at::Tensor& x) {
  check(slot < slots_ && !known_[slot], "a slot is filled once");
  known_[slot] = true;
  weights_[slot] = weight;
  alone_[slot] = x;
  meet(slot);
}

void WeightedMean::skip(std::size_t slot) {
  check(slot < slots_ && !known_[slot], "a slot is filled once");
  known_[slot] = true;
  meet(slot);
}

// Neighbours are added in one pass over memory, the lower slot first, whoever came last.
void WeightedMean::meet(std::size_t slot) {
  const std::size_t low = slot & ~std::size_t{1}, high = low + 1;
  const auto here = [&](std::size_t at) { return at >= slots_ || known_[at]; };
  if (!here(low) || !here(high)) return;
  at::Tensor sum;
  for (const std::size_t at : {low, high}) {
    const auto found = alone_.find(at);
    if (found == alone_.end()) continue;
    sum = sum.defined() ? sum.add_(found->second, weights_[at]) : found->second.mul(weights_[at]);
    alone_.erase(found);
  }
  settle(depth_ == 0 ? Node{0, 0} : Node{1, low / 2}, sum);
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
  return count + alone_.size();
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
