#include "application/peft/tuned_network.h"

#include <fmt/format.h>

#include "application/peft/sub_network.h"
#include "core/base/error.h"

namespace chorus::inline peft {
namespace {

// Every variant must see the same frozen weights at the same places.
bool same_frozen(const Layout& a, const Layout& b) {
  if (a.frozen_size() != b.frozen_size()) return false;
  for (const ParamSpec& spec : a.specs()) {
    if (spec.trainable) continue;
    const auto id = b.find(spec.name);
    if (!id || b[*id].trainable || b[*id].offset != spec.offset || b[*id].shape != spec.shape) return false;
  }
  return true;
}

}  // namespace

at::Tensor places_of(const Layout& part, const Layout& whole) {
  const at::Tensor places = torch::empty({part.trainable_size()}, at::kLong);
  auto* out = places.data_ptr<std::int64_t>();
  for (const ParamSpec& spec : part.specs()) {
    if (!spec.trainable) continue;
    const auto id = whole.find(spec.name);
    check(id && whole[*id].trainable && whole[*id].shape.size() == spec.shape.size(),
          fmt::format("{} is no part of what trains", spec.name));
    const ParamSpec& large = whole[*id];
    std::int64_t rows = 1, large_rows = 1;
    for (std::size_t d = 0; d + 1 < spec.shape.size(); ++d) {
      check(d == 0 || spec.shape[d] == large.shape[d], "only the first and the last dimension may grow");
      rows *= spec.shape[d];
      large_rows *= large.shape[d];
    }
    const std::int64_t columns = spec.shape.empty() ? 1 : spec.shape.back();
    const std::int64_t large_columns = large.shape.empty() ? 1 : large.shape.back();
    check(rows <= large_rows && columns <= large_columns, fmt::format("{} is larger than in the whole", spec.name));
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        out[spec.offset + r * columns + c] = large.offset + r * large_columns + c;
      }
    }
  }
  return places;
}

TunedNetwork::TunedNetwork(std::unique_ptr<Model> model, Params params, std::shared_ptr<const Tuning> tuning)
    : model_(std::move(model)),
      params_(std::move(params)),
      tuning_(std::move(tuning)),
      whole_(tuning_->whole(model_->layers())) {
  const auto sizes = network_sizes(model_->config());
  resizable_ = !tuning_->keeps_network() && sizes && model_->layout().frozen_size() == 0;
  if (resizable_) whole_ = {sizes->layers, sizes->inner};
}

Variant TunedNetwork::full_of(const Variant& variant) const {
  return {variant.depth < 0 ? whole_.depth : variant.depth, variant.width < 0 ? whole_.width : variant.width};
}

TunedNetwork::Part TunedNetwork::part(const Variant& variant) const {
  if (full_of(variant) == whole_) return {*model_, params_};
  const Made& found = made(variant);
  return {*found.model, found.params};
}

at::Tensor TunedNetwork::places(const Variant& variant) const {
  if (full_of(variant) == whole_) return torch::arange(model_->layout().trainable_size(), at::kLong);
  return made(variant).places;
}

TunedNetwork::Made TunedNetwork::sub_network(const Variant& wanted) const {
  if (wanted.depth < 1 || wanted.depth > whole_.depth || wanted.width < 1 || wanted.width > whole_.width) {
    throw ConfigError(fmt::format("clients are to train {} layers with an inner width of {}; the network has {} and {}",
                                  wanted.depth, wanted.width, whole_.depth, whole_.width));
  }
  auto model = make_model(resized(model_->config(), {wanted.depth, wanted.width}), model_->head());
  tuning_->attach(*model, {});
  at::Tensor places = places_of(model->layout(), params_.layout());
  Params params = Params::zeros_over_frozen(model->layout(), params_.frozen());
  params.values().copy_(params_.values().index_select(1, places.to(params_.device())));
  return {std::move(model), std::move(params), std::move(places)};
}

const TunedNetwork::Made& TunedNetwork::made(const Variant& variant) const {
  const std::lock_guard lock(mutex_);
  const Variant wanted = full_of(variant);
  if (const auto found = made_.find(wanted); found != made_.end()) return found->second;
  if (resizable_) return made_.emplace(wanted, sub_network(wanted)).first->second;
  if (!tuning_->keeps_network() || wanted.depth > whole_.depth) {
    throw ConfigError(fmt::format(
        "tuning: clients are to train the top {} layers at width {}, but the run has adapters in the top {} at width "
        "{} {}",
        wanted.depth, wanted.width, whole_.depth, whole_.width,
        tuning_->keeps_network() ? "at most" : "and cannot change them; use pfeiffer, houlsby, lora or prefix"));
  }
  auto model = make_model(model_->config(), model_->head());
  tuning_->attach(*model, wanted);
  at::Tensor frozen = params_.frozen();
  if (!same_frozen(model->layout(), params_.layout())) {
    // A frozen part that depends on the variant (LoRA's A): its leading block.
    frozen = torch::empty({model->layout().frozen_size()}, frozen.options());
    for (const ParamSpec& spec : model->layout().specs()) {
      if (spec.trainable) continue;
      at::Tensor from = params_.tensor(*params_.layout().find(spec.name));
      for (std::size_t d = 0; d < spec.shape.size(); ++d)
        from = from.narrow(static_cast<std::int64_t>(d), 0, spec.shape[d]);
      frozen.narrow(0, spec.offset, spec.count).copy_(from.reshape({-1}));
    }
  }
  at::Tensor places = places_of(model->layout(), params_.layout());
  Params params = Params::zeros_over_frozen(model->layout(), frozen);
  params.values().copy_(params_.values().index_select(1, places.to(params_.device())));
  return made_.emplace(wanted, Made{std::move(model), std::move(params), std::move(places)}).first->second;
}

std::vector<Variants::LowRankPair> TunedNetwork::low_rank_pairs() const {
  std::vector<LowRankPair> pairs;
  const Layout& layout = model_->layout();
  constexpr std::string_view kA = ".lora_A.weight";
  for (const ParamSpec& a : layout.specs()) {
    if (!a.attached || !a.trainable || !a.name.ends_with(kA)) continue;
    const auto id = layout.find(a.name.substr(0, a.name.size() - kA.size()) + ".lora_B.weight");
    check(id.has_value(), "a low-rank update has two factors");
    const ParamSpec& b = layout[*id];
    pairs.push_back({a.offset, b.offset, a.shape[0], a.shape[1], b.shape[0]});
  }
  return pairs;
}

}  // namespace chorus::inline peft
