#include "application/data/synthetic/record_json.h"

#include <nlohmann/json.hpp>

namespace chorus::inline synthetic {

void append_json_line(const Record& record, Formulation formulation, std::string& out) {
  nlohmann::ordered_json line;
  const auto set = [&line](const char* name, const std::string& value) {
    if (!value.empty()) line[name] = value;
  };
  set("id", record.id);
  switch (formulation) {
    case Formulation::kTextClassification:
      line["text"] = record.text;
      set("label", record.label);
      break;
    case Formulation::kPairClassification:
      line["text"] = record.text;
      line["second"] = record.second;
      set("label", record.label);
      break;
    case Formulation::kPairRegression:
      line["text"] = record.text;
      line["second"] = record.second;
      line["score"] = record.score;
      break;
    case Formulation::kSequenceTagging:
      line["words"] = record.words;
      line["tags"] = record.tags;
      break;
    case Formulation::kSpanExtraction: {
      line["context"] = record.text;
      line["question"] = record.second;
      auto answers = nlohmann::ordered_json::array();
      for (const GoldAnswer& answer : record.answers) {
        answers.push_back({{"text", answer.text}, {"answer_start", answer.begin}});
      }
      line["answers"] = std::move(answers);
      break;
    }
    case Formulation::kSeq2Seq:
      line["text"] = record.text;
      line["target"] = record.second;
      break;
    case Formulation::kLanguageModel:
      line["text"] = record.text;
      break;
  }
  set("client", record.client);
  set("source", record.source);
  if (record.time != kNoTime) line["time"] = record.time;
  out += line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  out += '\n';
}

}  // namespace chorus::inline synthetic
