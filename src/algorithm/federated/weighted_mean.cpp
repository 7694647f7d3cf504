#include "algorithm/federated/weighted_mean.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "core/base/error.h"
#include "core/device/gpu_kernel.h"
#include "core/device/torch_runtime.h"
#include "core/tensor/flat_math.h"

namespace chorus {

namespace {

std::size_t groups_of(std::size_t slots) { return (slots + kMostTerms - 1) / kMostTerms; }

bool flat(const at::Tensor& x) { return x.scalar_type() == at::kFloat && x.is_contiguous(); }
bool plain(const at::Tensor& x) { return x.is_cpu() && flat(x); }
bool on_gpu(const at::Tensor& x) { return GpuKernel::works_on(x) && flat(x); }

// flat_math.h's weighted_sum for a GPU, of up to eight terms and a sum. Null: none.
constexpr const char* kSumSource = R"(
extern "C" __global__ void __launch_bounds__(256)
weighted_sum(float* out, const float* x0, const float* x1, const float* x2, const float* x3, const float* x4,
             const float* x5, const float* x6, const float* x7, float w0, float w1, float w2, float w3, float w4,
             float w5, float w6, float w7, const float* sum, long long count) {
  const float* const x[8] = {x0, x1, x2, x3, x4, x5, x6, x7};
  const float w[8] = {w0, w1, w2, w3, w4, w5, w6, w7};
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count; i += step) {
    float v[8], total = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) v[k] = x[k] == 0 ? 0.0f : x[k][i];
#pragma unroll
    for (int k = 0; k < 8; ++k) total += w[k] * v[k];
    out[i] = sum == 0 ? total : total + sum[i];
  }
}
)";

void gpu_weighted_sum(const at::Tensor& out, std::span<const Term> terms, const at::Tensor& sum) {
  static const GpuKernel kernel("weighted_sum", kSumSource);
  std::array<Term, kMostTerms> x{};
  std::copy(terms.begin(), terms.end(), x.begin());
  constexpr std::int64_t kThreads = 256, kOfThread = 8;
  kernel.launch({(out.numel() + kThreads * kOfThread - 1) / (kThreads * kOfThread), kThreads}, out.data_ptr<float>(),
                x[0].numbers, x[1].numbers, x[2].numbers, x[3].numbers, x[4].numbers, x[5].numbers, x[6].numbers,
                x[7].numbers, x[0].weight, x[1].weight, x[2].weight, x[3].weight, x[4].weight, x[5].weight, x[6].weight,
                x[7].weight, sum.defined() ? sum.data_ptr<float>() : nullptr, out.numel());
}

}  // namespace

WeightedMean::WeightedMean(std::size_t slots) : slots_(slots), known_(slots, false), weights_(slots, 0.0) {
  const std::size_t groups = groups_of(slots);
  while ((std::size_t{1} << depth_) < groups) ++depth_;
  // The leaves beyond the groups are empty; whole empty subtrees settle at once.
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

// Neighbours are added in one pass over memory, the lowest slot first, whoever came last; and with them, in the same
// pass, the sums that wait for theirs.
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
      weighted_sum(sum.data_ptr<float>(), terms, sums, sum.numel());
    } else {
      gpu_weighted_sum(sum, terms, others.empty() ? at::Tensor() : sum);
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

// Up the tree from a node as far as siblings are done: where that ends, and the sums on the way, the lowest first.
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

// a + b is b + a in floating point, so which of the two is kept does not matter.
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
