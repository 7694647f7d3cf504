#include "apps/experiment/in_the_clear.h"

#include <fmt/format.h>

#include <algorithm>

namespace chorus::inline experiment {
namespace {

constexpr const char* kByLoss[] = {"power_of_choice"};
constexpr const char* kBySize[] = {"weighted", "stratified", "heavy", "light"};

// The selection that decides: a wrapper (available) has another one inside.
std::string innermost(Choice<Selectors> selection) {
  ConfigVisitor visitor;
  selection.describe(visitor);
  const ConfigField* inner = visitor.find("selector");
  if (inner == nullptr || inner->kind != Selectors::kKind) return selection.name();
  return innermost(static_cast<const Choice<Selectors>&>(inner->choice(0)));
}

bool is_one_of(const auto& names, const std::string& name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

std::string told_in_the_clear(const ExperimentConfig& config) {
  const std::string& aggregation = config.aggregation.name();
  const std::string selection = innermost(config.selection);
  if (is_one_of(kByLoss, selection)) {
    return fmt::format(
        "selection: {} asks every candidate for its loss, which aggregation: {} is to hide; choose another selection",
        selection, aggregation);
  }
  if (is_one_of(kBySize, selection)) {
    return fmt::format(
        "selection: {} needs the clients' numbers of examples, which aggregation: {} is to hide; use selection: "
        "uniform (weighting: examples still counts them, inside the sum)",
        selection, aggregation);
  }
  if (config.evaluation.per_client || config.evaluation.personal) {
    return fmt::format(
        "evaluation.{}: it shows the scores of single clients, which aggregation: {} is to hide; leave "
        "it out",
        config.evaluation.per_client ? "per_client" : "personal", aggregation);
  }
  if (config.algorithm.traits().partial) {
    return fmt::format(
        "algorithm: {} is evaluated by the score of each client's own model, which aggregation: {} is to hide; use "
        "ditto, apfl, per_fedavg, pfedme or fine_tuning, whose global model the server evaluates itself",
        config.algorithm.name(), aggregation);
  }
  return "";
}

}  // namespace chorus::inline experiment
