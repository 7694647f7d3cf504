#include "application/models/head_labels.h"

#include <algorithm>
#include <map>

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

bool numbered(const std::vector<std::string>& labels) {
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] != std::to_string(i)) return false;
  }
  return true;
}

}  // namespace

LabelMatch match_labels(const std::vector<std::string>& own, const std::vector<std::string>& wanted) {
  check(own.size() == wanted.size(), "labels of heads of the same size");
  const std::vector<std::string> from = plain(own), to = plain(wanted);
  if (own.size() < 2 || from == to) return {};
  std::map<std::string, std::int64_t> rows;
  for (std::size_t i = 0; i < from.size(); ++i) rows[from[i]] = static_cast<std::int64_t>(i);
  LabelMatch match;
  for (const std::string& name : to) {
    if (const auto found = rows.find(name); found != rows.end()) match.rows.push_back(found->second);
  }
  if (match.rows.size() < to.size()) {
    match.rows.clear();
    match.other = !numbered(from) && !numbered(to);
  }
  return match;
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
