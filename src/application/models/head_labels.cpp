#include "application/models/head_labels.h"

#include <algorithm>
#include <map>
#include <optional>

#include "core/base/error.h"

namespace chorus::inline models {
namespace {

constexpr std::string_view kNumbered = "label_";

std::vector<std::string> plain(const std::vector<std::string>& labels) {
  std::vector<std::string> result;
  for (std::string name : labels) {
    for (char& letter : name) letter = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter;
    result.push_back(name.starts_with(kNumbered) ? name.substr(kNumbered.size()) : name);
  }
  std::vector<std::string> sorted = result;
  std::sort(sorted.begin(), sorted.end());
  return std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end() ? result : labels;
}

// Where `list` has each of the names; nullopt if it lacks one.
std::optional<std::vector<std::int64_t>> places_in(const std::vector<std::string>& list,
                                                   const std::vector<std::string>& names) {
  std::map<std::string, std::int64_t> places;
  for (std::size_t i = 0; i < list.size(); ++i) places[list[i]] = static_cast<std::int64_t>(i);
  std::vector<std::int64_t> result;
  for (const std::string& name : names) {
    const auto found = places.find(name);
    if (found == places.end()) return std::nullopt;
    result.push_back(found->second);
  }
  return result;
}

}  // namespace

LabelMatch match_labels(const std::vector<std::string>& own, const std::vector<std::string>& wanted) {
  check(own.size() == wanted.size(), "labels of heads of the same size");
  const std::vector<std::string> from = plain(own), to = plain(wanted);
  if (own.size() < 2 || from == to) return {};
  const std::vector<std::string> numbers = plain(numbered_labels(static_cast<std::int64_t>(own.size())));
  std::optional<std::vector<std::int64_t>> rows = places_in(from, to);
  if (!rows) rows = places_in(numbers, to);    // labels that are numbers of rows
  if (!rows) rows = places_in(from, numbers);  // rows that are for numbers of labels
  if (!rows) return {.other = true};
  if (std::is_sorted(rows->begin(), rows->end())) return {};
  return {.rows = *std::move(rows)};
}

std::vector<std::string> label_parameters(const ModelConfig& config, Head head) {
  ModelConfig more = config;
  more.set_labels(numbered_labels(static_cast<std::int64_t>(config.labels().size()) + 1));
  const auto model = make_model(config, head), larger = make_model(more, head);
  std::vector<std::string> names;
  for (const ParamSpec& spec : model->layout().specs()) {
    if (larger->layout()[*larger->layout().find(spec.name)].shape != spec.shape) names.push_back(spec.name);
  }
  return names;
}

}  // namespace chorus::inline models
