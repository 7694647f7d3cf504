#include "application/trainer/frozen_ranges.h"

#include "core/base/error.h"

namespace chorus::inline trainer {
namespace {

at::Tensor part(const at::Tensor& rows, const FlatRange& range) {
  return rows.narrow(1, range.begin, range.end - range.begin);
}

}  // namespace

FrozenRanges::FrozenRanges(std::span<const FlatRange> ranges, const Params& params) {
  for (const FlatRange& range : ranges) {
    check(range.begin >= 0 && range.begin <= range.end && range.end <= params.values().size(1),
          "frozen elements lie within the vector of what trains");
    if (range.begin == range.end) continue;
    part(params.grads(), range).zero_();
    saved_.push_back({range, part(params.values(), range).clone(),
                      params.shadow().exists() ? part(params.shadow().values(), range).clone() : at::Tensor()});
  }
}

void FrozenRanges::restore(const Params& params) const {
  for (const auto& [range, values, shadow] : saved_) {
    part(params.values(), range).copy_(values);
    if (shadow.defined()) part(params.shadow().values(), range).copy_(shadow);
  }
}

}  // namespace chorus::inline trainer
