#include "algorithm/federated/weighted_mean.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "algorithm/federated/weighted_sum_gpu.h"
#include "core/base/error.h"
#include "core/device/backend.h"
#include "core/device/torch_runtime.h"
#include "core/files/file_memory.h"
#include "core/tensor/flat_math.h"

namespace chorus::inline federated {

namespace {

std::size_t groups_of(std::size_t slots) { return (slots + kMostTerms - 1) / kMostTerms; }

bool flat(const at::Tensor& x) { return x.scalar_type() == at::kFloat && x.is_contiguous(); }
bool plain(const at::Tensor& x) { return x.is_cpu() && flat(x); }
// Vectors that lie in files (core/files/file_memory.h) are in memory a block at a time. Others are summed in one pass:
// blocks would start the threads again and again.
void sum_all(float* out, std::vector<Term> terms, std::vector<const float*> sums, std::int64_t count) {
  const bool from_files =
      std::any_of(terms.begin(), terms.end(), [](const Term& x) { return lies_in_file(x.numbers); });
  if (!from_files) return weighted_sum(out, terms, sums, count);
  constexpr std::int64_t kBlock = 1 << 20;
  for (std::int64_t at = 0; at < count; at += kBlock) {
    const std::int64_t n = std::min(kBlock, count - at);
    for (const Term& term : terms) expect_pages(term.numbers, static_cast<std::size_t>(n) * sizeof(float));
    weighted_sum(out + at, terms, sums, n);
    for (Term& term : terms) {
      forget_pages(term.numbers, static_cast<std::size_t>(n) * sizeof(float));
      term.numbers += n;
    }
    for (const float*& sum : sums) sum += n;
  }
}

bool on_gpu(const at::Tensor& x) { return backend_for(x, {.gpu = flat(x)}) == Backend::kGpu; }

}  // namespace

WeightedMean::WeightedMean(std::size_t slots) : slots_(slots), known_(slots, false), weights_(slots, 0.0) {
  const std::size_t groups = groups_of(slots);
  while ((std::size_t{1} << depth_) < groups) ++depth_;
  // Leaves beyond the groups are empty; an empty subtree is settled at once.
  for (std::size_t end = std::size_t{1} << depth_, at = groups; at < end;) {
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
  waiting_[slot] = x;
  meet(slot / kMostTerms);
}

void WeightedMean::skip(std::size_t slot) {
  check(slot < slots_ && !known_[slot], "a slot is filled once");
  known_[slot] = true;
  meet(slot / kMostTerms);
}

void WeightedMean::add_group(std::size_t group, const std::map<std::size_t, double>& weights, const at::Tensor& sum) {
  const std::size_t begin = group * kMostTerms, end = std::min(begin + kMostTerms, slots_);
  check(begin < end && !weights.empty() && weights.begin()->first >= begin && weights.rbegin()->first < end,
        "there is no such group");
  for (std::size_t slot = begin; slot < end; ++slot) {
    check(!known_[slot], "a slot is filled once");
    known_[slot] = true;
  }
  for (const auto& [slot, weight] : weights) weights_[slot] = weight;
  settle({0, group}, sum);
}

// Adds a group in one pass over memory, lowest slot first, whatever the order of arrival; the same pass adds the sums
// of siblings that wait for this group.
void WeightedMean::meet(std::size_t group) {
  const std::size_t begin = group * kMostTerms, end = std::min(begin + kMostTerms, slots_);
  for (std::size_t slot = begin; slot < end; ++slot) {
    if (!known_[slot]) return;
  }
  const auto first = waiting_.lower_bound(begin), last = waiting_.lower_bound(end);
  const bool all_plain = std::all_of(first, last, [](const auto& entry) { return plain(entry.second); });
  const bool all_there = std::all_of(first, last, [](const auto& entry) { return on_gpu(entry.second); });
  std::vector<Term> terms;
  for (auto at = first; at != last && (all_plain || all_there); ++at) {
    terms.push_back({at->second.data_ptr<float>(), static_cast<float>(weights_[at->first])});
  }
  if (first == last) {
    settle({0, group}, {});
  } else if (all_plain || all_there) {
    const auto [node, others] = take_siblings({0, group});
    const at::Tensor sum = others.empty() ? spare_like(first->second) : others.front();
    if (all_plain) {
      std::vector<const float*> sums;
      for (const at::Tensor& other : others) sums.push_back(other.data_ptr<float>());
      sum_all(sum.data_ptr<float>(), terms, sums, sum.numel());
    } else {
      weighted_sum_gpu(sum, terms, others.empty() ? at::Tensor() : sum);
      for (std::size_t i = 1; i < others.size(); ++i) at::Tensor(sum).add_(others[i]);
    }
    for (std::size_t i = 1; i < others.size(); ++i) spare_.push_back(others[i]);
    sums_[node] = sum;
  } else {
    at::Tensor sum;
    for (auto at = first; at != last; ++at) {
      sum = sum.defined() ? sum.add_(at->second, weights_[at->first]) : at->second.mul(weights_[at->first]);
    }
    settle({0, group}, sum);
  }
  waiting_.erase(first, last);
}

// Climbs the tree from a node while its siblings are done. Returns the last node, and the siblings' sums from the
// lowest level up.
std::pair<WeightedMean::Node, std::vector<at::Tensor>> WeightedMean::take_siblings(Node node) {
  std::vector<at::Tensor> others;
  for (; node.first < depth_; node = {node.first + 1, node.second / 2}) {
    const auto sibling = sums_.find({node.first, node.second ^ 1});
    if (sibling == sums_.end()) break;
    if (sibling->second.defined()) others.push_back(sibling->second);
    sums_.erase(sibling);
  }
  return {node, others};
}

at::Tensor WeightedMean::spare_like(const at::Tensor& x) {
  if (spare_.empty()) return at::empty_like(x);
  at::Tensor spare = spare_.back();
  spare_.pop_back();
  return spare;
}

// a + b = b + a in floating point, so either of the two may be kept.
void WeightedMean::settle(Node from, at::Tensor sum) {
  const auto [node, others] = take_siblings(from);
  for (const at::Tensor& other : others) {
    if (!sum.defined()) {
      sum = other;
    } else if (plain(sum) && plain(other)) {
      add_to(sum.data_ptr<float>(), other.data_ptr<float>(), sum.numel());
    } else {
      sum.add_(other);
    }
  }
  sums_[node] = sum;
}

double WeightedMean::weight() const { return std::accumulate(weights_.begin(), weights_.end(), 0.0); }

std::size_t WeightedMean::held() const {
  std::size_t count = 0;
  for (const auto& entry : sums_) count += entry.second.defined() ? 1 : 0;
  return count + waiting_.size();
}

at::Tensor WeightedMean::sum() {
  for (std::size_t slot = 0; slot < slots_; ++slot) {
    if (!known_[slot]) skip(slot);
  }
  return sums_.empty() ? at::Tensor() : sums_.begin()->second;
}

at::Tensor WeightedMean::result() {
  at::Tensor all = sum();
  const double total = weight();
  if (total == 0 || !all.defined()) return {};
  return all.div_(total);
}

}  // namespace chorus::inline federated
