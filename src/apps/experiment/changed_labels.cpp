#include "apps/experiment/changed_labels.h"

#include <fmt/format.h>

#include <algorithm>

#include "application/data/dataset_builder.h"
#include "application/data/record_of.h"
#include "application/tasks/encode_split.h"
#include "core/base/error.h"

namespace chorus::inline experiment {

std::shared_ptr<const EncodedDataset> with_changed_labels(const Task& task, const Dataset& data,
                                                          const std::function<std::int32_t(std::int32_t)>& change) {
  const Formulation kind = data.formulation();
  if (kind != Formulation::kTextClassification && kind != Formulation::kPairClassification) {
    throw ConfigError(
        fmt::format("trainer.label_epsilon: only the labels of classification data can be hidden, not those of {}; "
                    "leave it out",
                    name_of(kind)));
  }
  const std::vector<std::string>& labels = task.labels();
  DatasetBuilder builder({.formulation = kind, .label_vocabulary = labels, .empty = EmptyText::kKeep});
  for (std::uint32_t i = 0; i < data.size(); ++i) {
    Record record = record_of(data, i);
    if (*record.split == Split::kTrain && !record.label.empty()) {
      const auto own = std::find(labels.begin(), labels.end(), record.label);
      check(own != labels.end(), "labels were compared with the server's");
      record.label = labels[static_cast<std::size_t>(change(static_cast<std::int32_t>(own - labels.begin())))];
    }
    builder.add(record, *record.split);
  }
  // Every run has labels of its own, which nobody reads again.
  return encode_split(task, std::move(builder).finish(), Split::kTrain, {.cache = "none"}).data;
}

}  // namespace chorus::inline experiment
