#include "apps/audits/attribute_audit.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/base/rng.h"

namespace chorus::inline audits {
namespace {

// The biases of the classes; null where they do not train.
const ParamSpec* class_biases(const Model& model, std::size_t labels) {
  for (const ParamSpec& spec : model.layout().specs()) {
    if (spec.trainable && model.is_answer(spec) && spec.shape.size() == 1 &&
        spec.count == static_cast<std::int64_t>(labels)) {
      return &spec;
    }
  }
  return nullptr;
}

}  // namespace

AttributeReport audit_attribute(const AuditedRun& run, const SeenUpdates& updates, std::size_t clients) {
  const Experiment& experiment = run.experiment();
  const std::size_t labels = experiment.task().labels().size();
  const ParamSpec* biases = class_biases(experiment.model(), labels);
  if (biases == nullptr || experiment.data().label_ids().empty()) {
    throw ConfigError("attribute inference: needs a classification run whose classes have biases that train");
  }
  const ClientLists& train = experiment.partition().train;
  std::vector<ClientId> ids;
  for (std::size_t c = 0; c < train.clients(); ++c) {
    if (train.size_of(c) > 0) ids.push_back(static_cast<ClientId>(c));
  }
  RandomStream({.seed = static_cast<std::uint64_t>(run.config().seed), .purpose = "attribute audit"})
      .shuffle(std::span(ids));
  if (ids.size() > clients) ids.resize(clients);
  AttributeReport report{.clients = ids.size()};
  std::map<std::int32_t, std::size_t> common;
  for (const ClientId id : ids) {
    std::vector<std::size_t> counts(labels, 0);
    for (const std::uint32_t row : experiment.train()->rows_of(train[id])) {
      const std::int32_t label = experiment.train()->label(row);
      if (label >= 0 && static_cast<std::size_t>(label) < labels) ++counts[static_cast<std::size_t>(label)];
    }
    const auto truth = static_cast<std::int64_t>(std::max_element(counts.begin(), counts.end()) - counts.begin());
    ++common[static_cast<std::int32_t>(truth)];
    const auto guess = [&](const at::Tensor& update) {
      return update.narrow(0, biases->offset, biases->count).argmax().item<std::int64_t>();
    };
    const SeenUpdates::Training training{id, train[id], false};
    const auto share = 1.0 / static_cast<double>(ids.size());
    report.plain += guess(updates.plain(training)) == truth ? share : 0;
    report.seen += guess(updates.seen(training)) == truth ? share : 0;
  }
  for (const auto& entry : common) {
    report.chance = std::max(report.chance, static_cast<double>(entry.second) / static_cast<double>(ids.size()));
  }
  return report;
}

}  // namespace chorus::inline audits
