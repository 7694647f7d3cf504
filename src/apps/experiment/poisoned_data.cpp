#include "apps/experiment/poisoned_data.h"

#include <fmt/format.h>

#include <set>
#include <string>

#include "application/data/dataset_builder.h"
#include "application/data/record_of.h"
#include "core/base/error.h"
#include "core/base/rng.h"

namespace chorus::inline experiment {
namespace {

/// The id of a label; -1 for an empty name.
std::int32_t label_named(const std::vector<std::string>& labels, const std::string& name) {
  if (name.empty()) return -1;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == name) return static_cast<std::int32_t>(i);
  }
  throw ConfigError(fmt::format("attacks: the data has no label \"{}\"; it has {}", name, fmt::join(labels, ", ")));
}

}  // namespace

PoisonedData poisoned(const Dataset& data, std::span<const std::uint32_t> examples, const Poison& poison,
                      std::uint64_t seed) {
  const Formulation kind = data.formulation();
  if (kind != Formulation::kTextClassification && kind != Formulation::kPairClassification) {
    throw ConfigError(fmt::format("attacks: only classification data can be poisoned, not {}", name_of(kind)));
  }
  const std::vector<std::string> labels = label_names(data);
  const std::int32_t target = label_named(labels, poison.target), from = label_named(labels, poison.from);
  const std::set<std::uint32_t> chosen(examples.begin(), examples.end());
  DatasetBuilder builder({.formulation = kind, .label_vocabulary = labels, .empty = EmptyText::kKeep});
  std::vector<std::uint32_t> changed;
  for (std::uint32_t i = 0; i < data.size(); ++i) {
    Record record = record_of(data, i);
    const std::int32_t label = data.label_ids().empty() ? -1 : data.label_ids()[i];
    const std::int32_t wanted = target >= 0 ? target : static_cast<std::int32_t>(labels.size()) - 1 - label;
    if (chosen.contains(i) && label >= 0 && (from < 0 || label == from) && wanted != label) {
      RandomStream stream({.seed = seed, .purpose = "poison", .client = i});
      if (stream.uniform() < poison.share) {
        record.label = labels[static_cast<std::size_t>(wanted)];
        if (!poison.trigger.empty()) record.text = poison.trigger + " " + record.text;
        changed.push_back(i);
      }
    }
    builder.add(record, *record.split);
  }
  return {std::move(builder).finish(), std::move(changed)};
}

}  // namespace chorus::inline experiment
