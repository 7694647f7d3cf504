#include "apps/experiment/task_facts.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.h"

namespace chorus::inline experiment {
namespace {

constexpr int kFactsFormat = 1;
constexpr std::size_t kMostLabels = 1'000'000;

[[noreturn]] void not_facts(const std::string& why) {
  throw DataError(
      fmt::format("the server's description of the task cannot be used: {}; use the same version of "
                  "Chorus at both ends",
                  why));
}

const nlohmann::json& field(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) not_facts(fmt::format("it has no \"{}\"", name));
  return *found;
}

std::string text_of(const nlohmann::json& entry, const char* name) {
  if (!entry.is_string()) not_facts(fmt::format("\"{}\" is not a text", name));
  return entry.get<std::string>();
}

std::uint64_t fingerprint_of(const nlohmann::json& object, const char* name) {
  const std::string text = text_of(field(object, name), name);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() != 16 || error != std::errc() || end != text.data() + text.size()) {
    not_facts(fmt::format("\"{}\" is not 16 hexadecimal digits", name));
  }
  return value;
}

std::vector<std::string> labels_of(const nlohmann::json& list) {
  if (!list.is_array() || list.size() > kMostLabels) not_facts("\"labels\" is not a list of labels");
  std::vector<std::string> labels;
  std::set<std::string> known;
  for (const auto& entry : list) {
    labels.push_back(text_of(entry, "labels"));
    if (labels.back().empty()) not_facts("a label is empty");
    if (!known.insert(labels.back()).second) not_facts(fmt::format("it has the label '{}' twice", labels.back()));
  }
  return labels;
}

Formulation formulation_of(const std::string& name) {
  try {
    return formulation_named(name);
  } catch (const ConfigError& error) {
    not_facts(error.what());
  }
}

}  // namespace

std::string to_json(const TaskFacts& facts) {
  const auto hex = [](std::uint64_t value) { return fmt::format("{:016x}", value); };
  const nlohmann::json object{{"format", kFactsFormat},      {"formulation", name_of(facts.formulation)},
                              {"labels", facts.labels},      {"tokenizer", hex(facts.tokenizer)},
                              {"layout", hex(facts.layout)}, {"frozen", hex(facts.frozen)}};
  return object.dump();
}

TaskFacts parse_task_facts(const std::string& text) {
  const auto object = nlohmann::json::parse(text, nullptr, false);
  if (!object.is_object()) not_facts("it is not a JSON object");
  if (field(object, "format") != kFactsFormat) not_facts(fmt::format("its format is not {}", kFactsFormat));
  TaskFacts facts;
  facts.formulation = formulation_of(text_of(field(object, "formulation"), "formulation"));
  facts.labels = labels_of(field(object, "labels"));
  facts.tokenizer = fingerprint_of(object, "tokenizer");
  facts.layout = fingerprint_of(object, "layout");
  facts.frozen = fingerprint_of(object, "frozen");
  constexpr std::size_t kFields = 6;
  if (object.size() != kFields) not_facts("it has a field that this version does not know");
  return facts;
}

}  // namespace chorus::inline experiment
