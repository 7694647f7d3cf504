#include "application/trainer/split_parts.h"

#include <fmt/format.h>

#include "application/peft/tuned_network.h"
#include "core/base/error.h"

namespace chorus::inline trainer {
namespace {

unsigned readers_of(SplitRole role, bool labels_stay) {
  if (role == SplitRole::kClient) return labels_stay ? Model::kLower | Model::kUpper : unsigned{Model::kLower};
  return labels_stay ? unsigned{Model::kMiddle} : Model::kMiddle | Model::kUpper;
}

// Only values of parameters that nobody trains are there; all others share one element.
Params without_other_side(const Params& whole, const Layout& mine) {
  const auto options = whole.frozen().options();
  at::Tensor frozen = torch::zeros({1}, options).expand({mine.frozen_size()});
  if (whole.frozen().size(0) > 0) {
    frozen = torch::zeros({mine.frozen_size()}, options);
    const auto& specs = whole.layout().specs();
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (specs[i].trainable) continue;
      const ParamSpec& spec = mine.specs()[i];
      frozen.narrow(0, spec.offset, spec.count).copy_(whole.tensor({static_cast<int>(i)}).flatten());
    }
  }
  return Params::zeros_over_frozen(mine, frozen);
}

}  // namespace

void check_cut(const Model& model, const SplitCut& cut) {
  const int most = model.cuts();
  if (most == 0) {
    throw ConfigError(fmt::format("{} networks have no layers that could be cut apart; use a transformer",
                                  model.config().model_type()));
  }
  if (cut.layers < 0 || cut.layers > most || (cut.labels_stay && cut.layers == most)) {
    throw ConfigError(fmt::format(
        "algorithm.layers is {}, but the network has {} {}; set it to 0 to {}{}", cut.layers, most,
        most != model.layers() ? "encoder layers (the cut is in the encoder)"
        : most == 1            ? "layer"
                               : "layers",
        cut.labels_stay ? most - 1 : most, cut.labels_stay ? " (with labels: client the server needs a layer)" : ""));
  }
}

SplitSide split_side(const Model& model, const Params& whole, const SplitCut& cut, SplitRole role) {
  check_cut(model, cut);
  const unsigned mine = readers_of(role, cut.labels_stay);
  const unsigned others =
      readers_of(role == SplitRole::kClient ? SplitRole::kServer : SplitRole::kClient, cut.labels_stay);
  const Layout& all = model.layout();
  const auto readers = [&](int index) { return model.readers({index}, cut.layers, model.cuts()); };
  Layout layout = all;
  layout.freeze([&](const ParamSpec& spec) {
    const ParamId id = all.find(spec.name).value();
    // What nothing reads is the client's.
    const unsigned by = readers(id.index);
    return !all[id].trainable || ((by & mine) == 0 && !(by == 0 && role == SplitRole::kClient));
  });
  SplitSide side{without_other_side(whole, layout), places_of(layout, all), {}, {}, 0, (mine & Model::kUpper) != 0};
  at::Tensor owned = torch::ones({layout.trainable_size()}, at::kBool);
  for (std::size_t i = 0; i < layout.specs().size(); ++i) {
    const ParamSpec& spec = layout.specs()[i];
    if (!spec.trainable || (readers(static_cast<int>(i)) & others) == 0) continue;
    side.shared.push_back({static_cast<int>(i)});
    if (role == SplitRole::kServer) owned.narrow(0, spec.offset, spec.count).fill_(false);
  }
  side.own = owned.nonzero().flatten();
  const int middle = model.cuts() - cut.layers;
  const int above = model.layers() - model.cuts();  // a decoder
  side.layers = role == SplitRole::kClient ? cut.layers : middle;
  if (side.head) side.layers += above;
  return side;
}

SplitParts split_parts(const Model& model, const Params& whole, const SplitCut& cut) {
  const SplitSide client = split_side(model, whole, cut, SplitRole::kClient);
  const SplitSide server = split_side(model, whole, cut, SplitRole::kServer);
  SplitParts parts;
  parts.client = client.places;
  parts.server = server.places.index_select(0, server.own);
  check(parts.client.numel() + parts.server.numel() == model.layout().trainable_size(), "the sides make up the whole");
  for (const ParamId id : client.shared) parts.shared += model.layout()[id].count;
  parts.width = model.width();
  parts.client_layers = client.layers;
  parts.server_layers = server.layers;
  parts.client_share = static_cast<double>(parts.client.numel()) /
                       static_cast<double>(std::max<std::int64_t>(model.layout().trainable_size(), 1));
  return parts;
}

double side_memory(const Model& model, const SplitSide& side, double tokens) {
  const auto parameters = static_cast<double>(side.places.numel());
  // As CohortTrainer::client_bytes: a layer keeps about 20 vectors per token for the backward pass.
  const double answers = side.head && model.head()->generates ? 3.0 * static_cast<double>(model.vocabulary()) : 0;
  return 4 * (4 * parameters + tokens * (20.0 * static_cast<double>(model.width()) * (side.layers + 0.2) + answers));
}

std::optional<int> layers_for_memory(const Model& model, const Params& whole, double bytes, double tokens,
                                     bool labels_stay) {
  std::optional<int> best;
  const int most = labels_stay ? model.cuts() - 1 : model.cuts();
  for (int layers = 0; layers <= most; ++layers) {
    const SplitSide side = split_side(model, whole, {layers, labels_stay}, SplitRole::kClient);
    if (side_memory(model, side, tokens) > bytes) break;
    best = layers;
  }
  return best;
}

}  // namespace chorus::inline trainer
