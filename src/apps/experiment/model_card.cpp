#include "apps/experiment/model_card.h"

#include <fmt/format.h>

namespace chorus::inline experiment {

namespace {

/// The name of an aggregation and its mode; of groups also those of the sum within a group.
std::string text_of(const std::string& name, ConfigVisitor& visitor) {
  if (const ConfigField* sum = visitor.find("sum"); sum != nullptr && sum->type == ConfigField::Type::kChoice) {
    ConfigVisitor fields;
    sum->describe(0, fields);
    return fmt::format("{} of {}", name, text_of(sum->choice(0).name(), fields));
  }
  const auto is = [&](const char* key, const char* value) {
    const ConfigField* field = visitor.find(key);
    return field != nullptr && field->type == ConfigField::Type::kString && !field->get().empty() &&
           std::get<std::string>(field->get().front().second) == value;
  };
  const bool active = is("server", "active"), modelled = is("mode", "cost");
  const bool trusts = is("server", "semi_honest") || (!active && name == "light_secagg");
  std::string mode = active ? "active server" : trusts ? "semi-honest server" : "";
  if (modelled) mode += mode.empty() ? "modelled" : ", modelled";
  return mode.empty() ? name : fmt::format("{} ({})", name, mode);
}

}  // namespace

std::string aggregation_text(Choice<Aggregations> aggregation) {
  ConfigVisitor visitor;
  aggregation.describe(visitor);
  return text_of(aggregation.name(), visitor);
}

std::string model_card(const ExperimentConfig& config, const RunSummary& summary) {
  std::string text = fmt::format("# {}\n\n", config.name);
  text += fmt::format("Trained by federated learning (Chorus): task `{}`, algorithm `{}`, tuning `{}`, {} rounds.\n\n",
                      config.task.name(), config.algorithm.name(), config.tuning.name(), summary.rounds);
  text += "| score | last round | best round |\n|---|---|---|\n";
  for (const auto& [name, value] : summary.last) {
    const auto best = summary.best.find(name);
    text += fmt::format("| {} | {:.4f} | {} |\n", name, value,
                        best == summary.best.end() ? "-" : fmt::format("{:.4f}", best->second));
  }
  if (config.algorithm.traits().partial) {
    text +=
        "\nThe scores are of clients' own models on their own test examples. This model is only what they share; "
        "`chorus model personal` writes a client's own.\n";
  }
  text += "\n## Privacy\n\n";
  if (config.aggregation.traits().masked) {
    text += fmt::format("The server saw sums of updates only: {}.\n\n", aggregation_text(config.aggregation));
  }
  if (summary.privacy) {
    text += summary.privacy->statement + "\n";
  } else {
    text +=
        "No differential privacy: nothing is promised about the texts that this model was trained on. They were not "
        "collected, but a model can remember what it was trained on.\n";
  }
  if (config.audit) {
    text +=
        "\nThe training data had planted canaries to measure memory (`chorus privacy audit`); do not publish this "
        "model.\n";
  }
  return text;
}

}  // namespace chorus::inline experiment
