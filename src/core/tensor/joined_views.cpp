#include "core/tensor/joined_views.h"

#include <optional>

namespace chorus::inline tensor {
namespace {

// The parameters of a joint as one spec, if they are adjacent and alike.
std::optional<ParamSpec> joined_spec(const Layout& layout, const StoragePlan::Joint& joint) {
  ParamSpec all = layout[ParamId{joint.first}];
  for (int i = 1; i < joint.count; ++i) {
    const ParamSpec& next = layout[ParamId{joint.first + i}];
    if (next.trainable != all.trainable || next.offset != all.offset + all.count) return std::nullopt;
    all.count += next.count;
    all.shape[0] += next.shape[0];
  }
  return all;
}

}  // namespace

void JoinedViews::add(const Layout& layout, bool trainable, const std::function<at::Tensor(const ParamSpec&)>& view) {
  for (const StoragePlan::Joint& joint : layout.storage().joints) {
    const auto spec = joined_spec(layout, joint);
    if (spec && spec->trainable == trainable) views_[joint.first] = view(*spec);
  }
}

const at::Tensor& JoinedViews::operator[](ParamId first) const {
  static const at::Tensor kNone;
  const auto found = views_.find(first.index);
  return found == views_.end() ? kNone : found->second;
}

}  // namespace chorus::inline tensor
