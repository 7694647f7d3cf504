#include "core/tensor/layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/base/fingerprint.h"

namespace chorus::inline tensor {
namespace {

// Of one parameter, so that their sums do not overflow.
constexpr std::int64_t kMostElements = std::int64_t{1} << 46;

}  // namespace

ParamId Layout::add(std::string name, std::vector<std::int64_t> shape, Init init) {
  return append({.name = std::move(name), .shape = std::move(shape), .init = init, .layer = current_layer_});
}

ParamId Layout::add_buffer(std::string name, std::vector<std::int64_t> shape, Init init) {
  return append({.name = std::move(name),
                 .shape = std::move(shape),
                 .init = init,
                 .layer = current_layer_,
                 .trainable = false,
                 .buffer = true});
}

ParamId Layout::attach(std::string name, std::vector<std::int64_t> shape, Init init) {
  return append(
      {.name = std::move(name), .shape = std::move(shape), .init = init, .layer = current_layer_, .attached = true});
}

ParamId Layout::append(ParamSpec spec) {
  spec.count = 1;
  for (const std::int64_t size : spec.shape) {
    check(size > 0, fmt::format("parameter {} has an empty dimension", spec.name));
    if (spec.count > kMostElements / size) {
      throw DataError(fmt::format("the parameter {} of shape {} is too large", spec.name, fmt::join(spec.shape, "x")));
    }
    spec.count *= size;
  }
  const int index = static_cast<int>(specs_.size());
  check(index_.emplace(spec.name, index).second, fmt::format("parameter {} is added twice", spec.name));
  specs_.push_back(std::move(spec));
  place();
  return {index};
}

void Layout::mark_matmul_weight(ParamId id) {
  StoragePlan::mark(storage_.matmul_weights, id.index);
  place();
}

void Layout::join(ParamId first, int count) {
  check(first.exists() && first.index + count <= static_cast<int>(specs_.size()), "only what was added can be joined");
  storage_.joints.push_back({first.index, count});
}

void Layout::alias(std::string name, ParamId id) {
  check(id.exists() && !index_.contains(name), "an alias names an existing parameter under a new name");
  aliases_[std::move(name)] = id.index;
}

void Layout::freeze(const std::function<bool(const ParamSpec&)>& is_frozen) {
  for (ParamSpec& spec : specs_) spec.trainable = !spec.buffer && !is_frozen(spec);
  place();
}

Layout Layout::with_rows(ParamId id, std::int64_t rows) const {
  Layout result = *this;
  ParamSpec& spec = result.specs_.at(static_cast<std::size_t>(id.index));
  check(rows > 0 && spec.shape.size() == 2, "only a table has rows");
  spec.shape[0] = rows;
  spec.count = rows * spec.shape[1];
  result.storage_.last = id.index;
  result.place();
  return result;
}

std::optional<ParamId> Layout::find(std::string_view name) const {
  const std::string key(name);
  if (const auto found = index_.find(key); found != index_.end()) return ParamId{found->second};
  if (const auto found = aliases_.find(key); found != aliases_.end()) return ParamId{found->second};
  return std::nullopt;
}

void Layout::place() {
  trainable_size_ = frozen_size_ = 0;
  for (int group = 0; group < StoragePlan::kGroups; ++group) {
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      ParamSpec& spec = specs_[i];
      if (storage_.group(static_cast<int>(i), spec.count) != group) continue;
      std::int64_t& size = spec.trainable ? trainable_size_ : frozen_size_;
      spec.offset = size;
      size += spec.count;
    }
    if (group == 0) matmul_size_ = trainable_size_;
  }
}

std::uint64_t Layout::fingerprint() const {
  Fingerprint print;
  for (const ParamSpec& spec : specs_) {
    if (!spec.trainable) continue;
    print = chorus::fingerprint(fmt::format("{} {} {}", spec.name, spec.offset, fmt::join(spec.shape, "x")), print);
  }
  return print.low | 1;
}

}  // namespace chorus::inline tensor
