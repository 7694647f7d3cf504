#include "apps/experiment/compatibility.h"

#include <fmt/format.h>

#include <numeric>

#include "algorithm/local_budget/local_charges.h"
#include "apps/experiment/choice_setting.h"
#include "apps/experiment/distillation_compatibility.h"
#include "apps/experiment/in_the_clear.h"
#include "apps/experiment/masked_updates.h"
#include "apps/experiment/update_groups.h"

namespace chorus::inline experiment {
namespace {

bool plain_sgd(const TrainerConfig& trainer) {
  const bool has_momentum = number_of(trainer.optimizer, "momentum") > 0;
  return trainer.optimizer.name() == "sgd" && !has_momentum && trainer.weight_decay <= 0 && trainer.clip <= 0;
}

std::string split_mistake(const ExperimentConfig& config) {
  const AlgorithmTraits& algorithm = config.algorithm.traits();
  if (!algorithm.splits) return "";
  const TrainerConfig& trainer = config.trainer;
  const auto refuse = [&](const char* key, const char* why) {
    return fmt::format("{}: with algorithm: {} {}", key, config.algorithm.name(), why);
  };
  if (trainer.clip > 0) return refuse("trainer.clip", "no side knows the norm of the whole gradient; set it to 0");
  if (trainer.accumulate > 1) return refuse("trainer.accumulate", "every batch makes a step; set it to 1");
  if (trainer.precision == TrainerConfig::Precision::kBFloat16) {
    return refuse("trainer.precision", "both sides compute in float32; leave bfloat16 out");
  }
  if (trainer.privacy) return refuse("trainer.privacy", "activations would leave without noise; leave it out");
  if (trainer.cache.mode != ActivationCache::Mode::kOff) {
    return refuse("trainer.cache", "no layers can be cached; leave it out");
  }
  if (config.attacks) return refuse("attacks", "there are no updates of the whole network; leave them out");
  if (config.emulation && config.emulation->over_selection > 1) {
    return refuse("emulation.over_selection", "a server waits for every client of a session; leave it out");
  }
  return "";
}

// Attacks that a method without updates does not feel.
std::string attack_mistake(const ExperimentConfig& config) {
  const AlgorithmTraits& algorithm = config.algorithm.traits();
  const std::string& name = config.algorithm.name();
  if (algorithm.pooled || (algorithm.personal && !algorithm.distills)) {
    return fmt::format("attacks: algorithm: {} aggregates no updates that could be attacked; leave them out", name);
  }
  const Choice<Attacks>& attack = config.attacks->attack;
  const bool poisons = attack.make()->poison().has_value();
  if (poisons && !config.clients.models.empty()) {
    return fmt::format("attacks: {} changes training data as the server's network reads it; leave out clients.models",
                       attack.name());
  }
  if (algorithm.predictions_up && !algorithm.one_sum && !(poisons && number_of(attack, "factor") == 1)) {
    return fmt::format(
        "attacks: predictions of algorithm: {} do not pass through the aggregation, so an attack can only change "
        "training data; use label_flip or backdoor with factor: 1, or one of ds_fl, mhat, fedkd, fedmd, cronus and "
        "feded",
        name);
  }
  const bool groups = config.aggregation.name() == "secure_groups";
  if (attack.traits().sees != Attack::Sees::kOwn && (groups || algorithm.variants)) {
    return fmt::format(
        "attacks: {} looks at the updates of others, but {} asks one group of clients after the other, so that it "
        "would "
        "see its own group only and be too weak; use an attack that needs no other update (sign_flip, scaling, "
        "gaussian, label_flip, backdoor, free_rider)",
        attack.name(), groups ? "aggregation: secure_groups" : "algorithm: " + name);
  }
  if (!config.compression.up.empty()) {
    return "attacks: what attackers send does not pass through compression.up; leave one of them out";
  }
  return "";
}

// Settings for models that an algorithm does not have.
std::string model_mistake(const ExperimentConfig& config) {
  const AlgorithmTraits& algorithm = config.algorithm.traits();
  const std::string& name = config.algorithm.name();
  if (config.checkpoint.client_models && !algorithm.own_models) {
    return fmt::format("checkpoint.client_models: algorithm: {} gives clients no models of their own; leave it out",
                       name);
  }
  if (config.checkpoint.client_models && !algorithm.any_network) {
    return fmt::format(
        "checkpoint.client_models: algorithm: {} does not keep clients' models as a whole; leave it out, and write "
        "single ones with `chorus model personal`",
        name);
  }
  if (algorithm.distills && algorithm.personal && number_of(config.algorithm, "server_rate") > 0) {
    return fmt::format("algorithm.server_rate: with algorithm: {} the server has no model that learns; leave it out",
                       name);
  }
  return "";
}

// What would let one client change more than the noise was made for, or be known to have taken part.
std::string unprotected(const ExperimentConfig& config) {
  const std::string& name = config.aggregation.name();
  if (number_of(config.aggregation, "noise") <= 0 && number_of(config.aggregation, "epsilon") <= 0) {
    return fmt::format("aggregation: {}: give noise, or epsilon to compute it from; without noise nothing is private",
                       name);
  }
  if (config.weighting != Weighting::kEqual) {
    return fmt::format(
        "weighting: under aggregation: {} a weight that depends on a client's data has no bounded effect; set "
        "weighting: "
        "equal",
        name);
  }
  if (config.aggregation.traits().separated) {
    const double wanted = number_of(config.aggregation, "separation");
    if (config.selection.name() != "separated" || number_of(config.selection, "separation") < wanted) {
      return fmt::format(
          "selection: aggregation: {} is accounted for with clients that wait {} rounds; set selection: {{name: "
          "separated, separation: {}}}",
          name, wanted, wanted);
    }
  } else if (!config.aggregation.traits().masked &&
             (config.selection.name() != "poisson" || !flag_of(config.selection, "secret"))) {
    return fmt::format(
        "selection: aggregation: {} is accounted for with secret Poisson sampling; set selection: poisson (and leave "
        "out "
        "secret: false)",
        name);
  }
  if (config.aggregation.traits().masked && config.selection.name() == "poisson") {
    return fmt::format(
        "selection: aggregation: {} counts on the noise of a known number of clients, and gains nothing from sampling; "
        "set selection: uniform",
        name);
  }
  if (!config.algorithm.traits().one_sum) {
    return fmt::format(
        "algorithm: {} uses more of the clients than one sum per round, which aggregation: {} does not protect; use "
        "fedavg, fedprox, fedopt or fedsgd, or for predictions ds_fl, mhat, fedkd, fedmd, cronus or feded",
        config.algorithm.name(), name);
  }
  if (config.emulation && config.emulation->over_selection > 1) {
    return fmt::format(
        "emulation.over_selection: under aggregation: {} a client must not push another one out of a round; leave it "
        "out",
        name);
  }
  return "";
}

// What would release more about single examples than noisy gradients.
std::string unprotected_examples(const ExperimentConfig& config) {
  const ExamplePrivacyConfig& privacy = *config.trainer.privacy;
  if (privacy.noise <= 0 && privacy.epsilon <= 0) {
    return "trainer.privacy: give noise, or epsilon to compute it from; without noise nothing is private";
  }
  if (config.selection.name() == "power_of_choice") {
    return "selection: power_of_choice asks clients for their losses, which trainer.privacy does not protect; use "
           "selection: uniform";
  }
  if (config.algorithm.name() == "fedsgd") {
    return "algorithm: fedsgd asks clients for one gradient without noise, which trainer.privacy does not protect; use "
           "fedavg with trainer.steps: 1";
  }
  return "";
}

// Where labels would leave as they are, or several times.
std::string unprotected_labels(const ExperimentConfig& config) {
  if (config.trainer.label_epsilon <= 0) return "";
  const auto refuse = [](const char* key, const char* why) {
    return fmt::format("{}: with trainer.label_epsilon {}; leave one of them out", key, why);
  };
  if (config.continual) return refuse("continual", "every segment would give labels out again");
  if (!config.clients.models.empty()) return refuse("clients.models", "all clients have the server's network");
  if (config.attacks) return refuse("attacks", "attackers would not change the labels that are trained on");
  if (config.algorithm.traits().pooled) return refuse("algorithm", "no client gives labels out");
  return "";
}

// What would let local noise be taken back, or releases more than one tensor per round.
std::string unprotected_replies(const ExperimentConfig& config) {
  if (!release_of(config.compression.up)) return "";
  for (const Choice<Filters>& filter : config.compression.up) {
    if (!filter.make()->feedback()) continue;
    return fmt::format(
        "compression.up: {} remembers what was lost, the noise included, and would take it back; leave one of them out",
        filter.name());
  }
  if (!config.algorithm.traits().one_sum) {
    return fmt::format(
        "algorithm: {} sends more than one tensor per round, which local noise is not accounted for; use fedavg, "
        "fedprox, fedopt or fedsgd, or for predictions ds_fl, mhat, fedkd, fedmd, cronus or feded",
        config.algorithm.name());
  }
  return "";
}

}  // namespace

std::string incompatibility(const ExperimentConfig& config) {
  const AlgorithmTraits& algorithm = config.algorithm.traits();
  const Aggregation::Traits& aggregation = config.aggregation.traits();
  const std::string& name = config.algorithm.name();
  if (algorithm.individual_updates && !aggregation.shows_updates) {
    return fmt::format(
        "algorithm: {} looks at each client's update, but aggregation: {} reveals only their sum; choose "
        "another algorithm, or aggregation: mean",
        name, config.aggregation.name());
  }
  // The updates that an asynchronous algorithm buffers can be summed securely.
  if (algorithm.own_mean && config.aggregation.name() != "mean" && !is_buffered(config)) {
    return fmt::format("algorithm: {} averages in its own way, so aggregation: {} would have no effect; leave it out",
                       name, config.aggregation.name());
  }
  if (const std::string mistake = distillation_mistake(config); !mistake.empty()) return mistake;
  if (const std::string mistake = model_mistake(config); !mistake.empty()) return mistake;
  if (const std::string mistake = split_mistake(config); !mistake.empty()) return mistake;
  if ((algorithm.pooled || (algorithm.personal && !algorithm.distills)) && config.aggregation.name() != "mean") {
    return fmt::format("algorithm: {} has nothing to aggregate; leave out aggregation: {}", name,
                       config.aggregation.name());
  }
  if (const std::string mistake = unfit_groups(config); !mistake.empty()) return mistake;
  const ClientsConfig& clients = config.clients;
  const bool counted = clients.count > 0 && clients.file.empty() && clients.partition.name() != "natural";
  const auto trusted = static_cast<std::int64_t>(number_of(config.aggregation, "trusted"));
  if (counted && trusted >= clients.count) {
    return fmt::format("aggregation.trusted: there is no client {}; clients.count is {}, so the last one is {}",
                       trusted, clients.count, clients.count - 1);
  }
  if (config.attacks && counted) {
    std::vector<ClientId> ids(static_cast<std::size_t>(clients.count));
    std::iota(ids.begin(), ids.end(), ClientId{0});
    if (const std::string mistake = attackers_mistake(ids, *config.attacks); !mistake.empty()) return mistake;
  }
  if (config.attacks && config.aggregation.name() == "fltrust" &&
      !config.attacks->spares(static_cast<ClientId>(trusted))) {
    return fmt::format(
        "aggregation.trusted: client {0} may be drawn as an attacker, whom the rule would trust; set attacks.spared: "
        "[{0}]",
        trusted);
  }
  if (config.attacks) {
    if (const std::string mistake = attack_mistake(config); !mistake.empty()) return mistake;
  }
  if (algorithm.plain_sgd && !plain_sgd(config.trainer)) {
    return fmt::format(
        "algorithm: {} needs plain gradient steps; set trainer.optimizer: sgd (momentum 0), trainer.clip: 0 and "
        "trainer.weight_decay: 0",
        name);
  }
  if (algorithm.variants && !config.tuning.make()->keeps_network()) {
    return fmt::format(
        "algorithm: {} asks clients about parts of what trains; set tuning to pfeiffer, houlsby, lora or prefix", name);
  }
  if (algorithm.sub_networks && (config.tuning.name() != "full" || !config.model.freeze.empty())) {
    return fmt::format(
        "algorithm: {} cuts the network into smaller ones, so all of it must train; leave out tuning and model.freeze, "
        "or use fedlora for unequal ranks",
        name);
  }
  if (algorithm.clock && !config.emulation) {
    return fmt::format(
        "algorithm: {} measures by the emulated clock; give `emulation` (docs/how-to/emulate_devices.md)", name);
  }
  if (algorithm.asynchronous && config.emulation && config.emulation->over_selection > 1) {
    return fmt::format("emulation.over_selection: {} does not wait for stragglers, so it has no use; leave it out",
                       name);
  }
  if (const double buffer = number_of(config.algorithm, "buffer");
      algorithm.asynchronous && buffer >= static_cast<double>(config.clients_per_round)) {
    return fmt::format(
        "clients_per_round: {} has {} candidates in a round and waits for {} updates, so that nobody would be left at "
        "work (a synchronous method); set clients_per_round to algorithm.concurrency + algorithm.buffer, or a smaller "
        "buffer",
        name, config.clients_per_round, buffer);
  }
  if (aggregation.masked) {
    if (const std::string mistake = unmasked(config); !mistake.empty()) return mistake;
    if (const std::string mistake = told_in_the_clear(config); !mistake.empty()) return mistake;
  }
  if (const std::string fault = unprotected_replies(config); !fault.empty()) return fault;
  if (const std::string fault = unprotected_labels(config); !fault.empty()) return fault;
  if (config.trainer.privacy) {
    if (const std::string fault = unprotected_examples(config); !fault.empty()) return fault;
  }
  return aggregation.noisy_sum ? unprotected(config) : "";
}

}  // namespace chorus::inline experiment
