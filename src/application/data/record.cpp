#include "application/data/record.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "core/base/error.h"

namespace chorus::inline data {
namespace {

constexpr std::array<std::pair<Formulation, const char*>, 7> kNames{{
    {Formulation::kTextClassification, "text_classification"},
    {Formulation::kPairClassification, "pair_classification"},
    {Formulation::kPairRegression, "pair_regression"},
    {Formulation::kSequenceTagging, "seq_tagging"},
    {Formulation::kSpanExtraction, "span_extraction"},
    {Formulation::kSeq2Seq, "seq2seq"},
    {Formulation::kLanguageModel, "language_model"},
}};

}  // namespace

const char* name_of(Formulation formulation) {
  for (const auto& [value, name] : kNames) {
    if (value == formulation) return name;
  }
  throw InternalError("a formulation without a name");
}

Formulation formulation_named(const std::string& name) {
  std::string known;
  for (const auto& [value, text] : kNames) {
    if (name == text) return value;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", text);
  }
  throw ConfigError(fmt::format("unknown formulation '{}'; use one of {}", name, known));
}

const char* name_of(Split split) {
  switch (split) {
    case Split::kTrain:
      return "train";
    case Split::kValidation:
      return "validation";
    case Split::kTest:
      return "test";
  }
  throw InternalError("a split without a name");
}

void ReadReport::add(const ReadReport& other) {
  records += other.records;
  empty += other.empty;
  replaced_bytes += other.replaced_bytes;
  misaligned += other.misaligned;
  realigned += other.realigned;
  unaligned += other.unaligned;
  notes.insert(notes.end(), other.notes.begin(), other.notes.end());
}

void Record::clear() {
  for (std::string* field : {&id, &text, &second, &label, &client, &source}) field->clear();
  score = std::numeric_limits<double>::quiet_NaN();
  words.clear();
  tags.clear();
  answers.clear();
  time = kNoTime;
  split.reset();
}

}  // namespace chorus::inline data
