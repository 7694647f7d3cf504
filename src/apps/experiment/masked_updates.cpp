#include "apps/experiment/masked_updates.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/experiment/choice_setting.h"
#include "apps/experiment/update_groups.h"

namespace chorus::inline experiment {
namespace {

// The sum itself, also within groups.
Choice<Aggregations> sum_of(Choice<Aggregations> aggregation) {
  ConfigVisitor visitor;
  aggregation.describe(visitor);
  const ConfigField* sum = visitor.find("sum");
  if (sum == nullptr || sum->kind != Aggregations::kKind) return aggregation;
  return static_cast<const Choice<Aggregations>&>(sum->choice(0));
}

bool is_active(const Choice<Aggregations>& sum) {
  return setting_of(sum, "server") == ConfigScalar(std::string("active"));
}

// Of so many clients, how many may be missing from a sum.
std::size_t most_missing(const Choice<Aggregations>& sum, std::size_t clients) {
  if (setting_of(sum, "dropout")) {
    return static_cast<std::size_t>(number_of(sum, "dropout") * static_cast<double>(clients) + 1e-9);
  }
  // secagg's thresholds (secure::complete_graph): a client's seeds come from the others that stay.
  const std::size_t others = clients - 1, colluding = is_active(sum) ? clients / 3 : 0;
  return others - ((others + colluding) / 2 + 1);
}

// Over-selection asks everybody for a sum and leaves out those who are late.
std::string late_replies(const ExperimentConfig& config) {
  if (!config.emulation || config.emulation->over_selection <= 1) return "";
  const Choice<Aggregations> sum = sum_of(config.aggregation);
  const std::size_t groups =
      std::max<std::size_t>(1, static_cast<std::size_t>(number_of(config.aggregation, "groups")));
  for (const UpdateGroup& all : update_groups(config)) {
    for (const std::size_t asked : {all.asked / groups, (all.asked + groups - 1) / groups}) {
      const std::size_t used = all.used * asked / all.asked, borne = most_missing(sum, asked);
      if (asked - used <= borne) continue;
      return fmt::format(
          "emulation.over_selection: {:g} asks {} clients for a secure sum and takes the first {} replies, but "
          "aggregation: {} bears {} missing; lower it{}",
          config.emulation->over_selection, asked, used, config.aggregation.name(), borne,
          setting_of(sum, "dropout") ? ", or raise aggregation.dropout" : "");
    }
  }
  return "";
}

}  // namespace

std::string unmasked(const ExperimentConfig& config) {
  const std::string& name = config.aggregation.name();
  const Choice<Aggregations> sum = sum_of(config.aggregation);
  if (!config.compression.up.empty()) {
    return fmt::format(
        "compression.up: filters of their own scale or support (top-k, QSGD) make sums of masked updates impossible; "
        "leave them out, aggregation: {} quantises at a common scale itself (aggregation.bits)",
        name);
  }
  if (!config.compression.down.empty()) {
    return fmt::format(
        "compression.down: under aggregation: {} all clients prove that they were given the same model, which filters "
        "change; leave them out",
        name);
  }
  if (config.algorithm.traits().distills && !config.algorithm.traits().one_sum) {
    return fmt::format(
        "aggregation: {} hides what single clients send, but algorithm: {} looks at each client's predictions; use "
        "ds_fl, mhat, fedkd, fedmd, cronus or feded, which need only their mean",
        name, config.algorithm.name());
  }
  if (flag_of(config.selection, "replacement")) {
    return fmt::format("selection: under aggregation: {} a client counts once; set selection.replacement: false", name);
  }
  if (config.algorithm.traits().asynchronous && is_active(sum)) {
    return fmt::format(
        "aggregation: {} with server: active: algorithm: {} hands out models before there is a sum, so clients cannot "
        "prove that they were given the same one; set server: semi_honest, or choose a synchronous algorithm",
        name, config.algorithm.name());
  }
  if (config.trainer.weight_decay > 0 && number_of(sum, "rare_rows") > 0) {
    return "aggregation.rare_rows: trainer.weight_decay changes every row of a word table in every step, so each "
           "client would seem to have all words; set trainer.weight_decay: 0, or leave rare_rows out";
  }
  if (config.attacks && config.aggregation.make()->masks()) {
    return fmt::format(
        "attacks: the simulation changes updates on their way to the server, which the masks of aggregation: {} hide; "
        "use its mode: cost, which gives the same sums",
        name);
  }
  return late_replies(config);
}

}  // namespace chorus::inline experiment
