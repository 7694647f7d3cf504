#include "apps/experiment/update_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/experiment/choice_setting.h"

namespace chorus::inline experiment {
namespace {

constexpr std::size_t kParts = 3;  // of a round's clients, at most (adafl)

double over_selection_of(const ExperimentConfig& config) {
  return config.emulation ? config.emulation->over_selection : 1;
}

// "with 10 clients per round", for a group of them
std::string how_many(const ExperimentConfig& config, std::size_t asked) {
  if (is_buffered(config)) return fmt::format("with algorithm.buffer: {}", asked);
  if (config.algorithm.traits().variants) {
    return fmt::format("with {} of {} clients per round in a group of algorithm: {}", asked, config.clients_per_round,
                       config.algorithm.name());
  }
  return fmt::format("with {} clients per round", asked);
}

}  // namespace

std::int64_t updates_per_step(const ExperimentConfig& config) {
  return config.algorithm.traits().asynchronous ? static_cast<std::int64_t>(number_of(config.algorithm, "buffer"))
                                                : config.clients_per_round;
}

bool is_buffered(const ExperimentConfig& config) {
  return config.algorithm.traits().asynchronous && config.aggregation.traits().masked;
}

std::vector<UpdateGroup> update_groups(const ExperimentConfig& config) {
  if (is_buffered(config)) {
    const auto buffer = static_cast<std::size_t>(number_of(config.algorithm, "buffer"));
    return {{buffer, buffer}};
  }
  const auto used = static_cast<std::size_t>(config.clients_per_round);
  const auto asked = static_cast<std::size_t>(std::ceil(over_selection_of(config) * static_cast<double>(used) - 1e-9));
  std::vector<UpdateGroup> groups;
  for (std::size_t parts = config.algorithm.traits().variants ? kParts : 1; parts > 0; --parts) {
    groups.push_back({asked / parts, used / parts});
    if (asked % parts > 0) groups.push_back({asked / parts + 1, (used + parts - 1) / parts});
  }
  return groups;
}

std::string unfit_groups(const ExperimentConfig& config) {
  const auto rule = config.aggregation.make();
  const std::string& name = config.aggregation.name();
  const std::vector<UpdateGroup> groups = update_groups(config);
  if (const std::size_t least = rule->least_updates(), used = groups.front().used; least > used) {
    if (config.algorithm.traits().variants) {
      return fmt::format(
          "aggregation: {} with these settings needs {} updates, but algorithm: {} deals {} clients per round into {} "
          "groups, which have {}; raise clients_per_round, or let the aggregation need fewer",
          name, least, config.algorithm.name(), config.clients_per_round, kParts, used);
    }
    return fmt::format(
        "aggregation: {} with these settings needs {} updates per round, but {} is {}; raise it, or let the "
        "aggregation need fewer",
        name, least, is_buffered(config) ? "algorithm.buffer" : "clients_per_round", used);
  }
  for (const UpdateGroup& group : groups) {
    const std::string refusal = rule->refusal(group.asked, config.weighting);
    if (!refusal.empty()) return fmt::format("aggregation: {} {}: {}", name, how_many(config, group.asked), refusal);
  }
  return "";
}

}  // namespace chorus::inline experiment
