#include "application/data/partition/dataset_population.h"

#include "application/data/partition/pseudo_labels.h"

namespace chorus::inline partition {
namespace {

std::vector<std::string> names_of(const StringTable& table) {
  std::vector<std::string> names;
  names.reserve(table.size());
  for (std::size_t i = 0; i < table.size(); ++i) names.emplace_back(table.at(static_cast<std::int32_t>(i)));
  return names;
}

std::string_view join_words(const Dataset& data, std::size_t i, std::string& scratch) {
  scratch.clear();
  const WordList words = data.words(i);
  for (std::size_t w = 0; w < words.size(); ++w) {
    if (w > 0) scratch += ' ';
    scratch += words[w];
  }
  return scratch;
}

std::string_view join_two(std::string_view a, std::string_view b, std::string& scratch) {
  scratch.assign(a);
  scratch += ' ';
  scratch += b;
  return scratch;
}

}  // namespace

TextAt feature_text(const Dataset& data) {
  switch (data.formulation()) {
    case Formulation::kSequenceTagging:
      return [&data](std::size_t i, std::string& scratch) { return join_words(data, i, scratch); };
    case Formulation::kSpanExtraction:
      return [&data](std::size_t i, std::string& scratch) {
        const Example example = data.at(i);
        return join_two(example.second, example.answers.empty() ? std::string_view{} : example.answers[0].text,
                        scratch);
      };
    case Formulation::kSeq2Seq:
      return [&data](std::size_t i, std::string&) { return data.second(i); };
    case Formulation::kPairClassification:
    case Formulation::kPairRegression:
      return [&data](std::size_t i, std::string& scratch) { return join_two(data.text(i), data.second(i), scratch); };
    default:
      return [&data](std::size_t i, std::string&) { return data.text(i); };
  }
}

TextAt DatasetPopulation::full_text() const {
  const Dataset& data = data_;
  if (data.formulation() == Formulation::kSequenceTagging) return feature_text(data);
  return [&data](std::size_t i, std::string& scratch) { return join_two(data.text(i), data.second(i), scratch); };
}

DatasetPopulation::DatasetPopulation(const Dataset& data, std::uint64_t seed)
    : data_(data), features_(feature_text(data), data.size(), seed) {
  view_.examples = data.size();
  view_.train = data.split(Split::kTrain);
  view_.test = data.split(Split::kTest);
  view_.times = data.times();
  view_.features = &features_;

  client_names_ = names_of(data.clients());
  source_names_ = names_of(data.sources());
  if (!data.client_ids().empty()) view_.clients = {data.client_ids(), client_names_};
  if (!data.source_ids().empty()) view_.sources = {data.source_ids(), source_names_, "source"};
  if (!data.label_ids().empty()) {
    label_names_ = names_of(data.labels());
    view_.labels = {data.label_ids(), label_names_};
  } else if (data.formulation() == Formulation::kSequenceTagging && data.size() > 0) {
    StringTable labels;
    std::vector<std::string_view> tags;
    for (std::size_t i = 0; i < data.size(); ++i) {
      tags.clear();
      for (const std::int32_t tag : data.tag_ids(i)) tags.push_back(data.tags().at(tag));
      pseudo_.push_back(labels.intern(pseudo_label(tags)));
    }
    label_names_ = names_of(labels);
    view_.labels = {pseudo_, label_names_};
  } else {
    view_.labels = view_.sources;
  }
}

}  // namespace chorus::inline partition
