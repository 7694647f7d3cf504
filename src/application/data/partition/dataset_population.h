#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "application/data/dataset.h"
#include "application/data/partition/population.h"
#include "application/data/partition/text_features.h"

namespace chorus::inline partition {

/// A Dataset as partitioners see it. Labels are the class labels; for tagging the pseudo-labels of pseudo_labels.h;
/// otherwise the sources, if any (FedNLP's `label_index_list`). The validation split is not dealt out. Borrows the
/// dataset, which must outlive this; features are computed on demand.
///
///     const DatasetPopulation population(data, seed);
///     Partition partition = Partitioners::make("label_dirichlet")->make(population.view(), {.clients = 100});
class DatasetPopulation {
 public:
  DatasetPopulation(const Dataset& data, std::uint64_t seed);
  DatasetPopulation(const DatasetPopulation&) = delete;
  DatasetPopulation& operator=(const DatasetPopulation&) = delete;

  const Population& view() const { return view_; }
  /// External vectors (sentence embeddings of an encoder) instead of TF-IDF and SVD. Borrowed.
  void use_features(const FeatureSource& features) { view_.features = &features; }
  /// All words of an example, for vocabularies.
  TextAt full_text() const;

 private:
  const Dataset& data_;
  std::vector<std::int32_t> pseudo_;
  std::vector<std::string> label_names_, client_names_, source_names_;
  TextFeatures features_;
  Population view_;
};

/// The text that is clustered, as in FedNLP: the words of a tagged sentence, question and answer of span extraction,
/// the target of seq2seq, both sentences of a pair, else the text.
TextAt feature_text(const Dataset& data);

}  // namespace chorus::inline partition
