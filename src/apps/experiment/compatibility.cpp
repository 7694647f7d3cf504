#include "apps/experiment/compatibility.h"

#include <fmt/format.h>

namespace chorus::inline experiment {
namespace {

bool has_momentum(Choice<Optimizers> optimizer) {
  ConfigVisitor visitor;
  optimizer.describe(visitor);
  const ConfigField* field = visitor.find("momentum");
  return field == nullptr || std::get<double>(field->get().front().second) > 0;
}

// The updates that make a step of an asynchronous algorithm; 0 for one that has no such setting.
std::int64_t buffer_of(Choice<Algorithms> algorithm) {
  ConfigVisitor visitor;
  algorithm.describe(visitor);
  const ConfigField* field = visitor.find("buffer");
  return field == nullptr ? 0 : std::get<std::int64_t>(field->get().front().second);
}

bool plain_sgd(const TrainerConfig& trainer) {
  return trainer.optimizer.name() == "sgd" && !has_momentum(trainer.optimizer) && trainer.weight_decay <= 0 &&
         trainer.clip <= 0;
}

bool is_secret(Choice<Selectors> selection) {
  ConfigVisitor visitor;
  selection.describe(visitor);
  const ConfigField* field = visitor.find("secret");
  return field != nullptr && std::get<bool>(field->get().front().second);
}

// Of settings that an aggregation may not have.
double number_of(Choice<Aggregations> aggregation, std::string_view name) {
  ConfigVisitor visitor;
  aggregation.describe(visitor);
  const ConfigField* field = visitor.find(name);
  return field == nullptr ? 0 : std::get<double>(field->get().front().second);
}

std::int64_t whole_number_of(Choice<Algorithms> algorithm, std::string_view name) {
  ConfigVisitor visitor;
  algorithm.describe(visitor);
  const ConfigField* field = visitor.find(name);
  return field == nullptr ? 0 : std::get<std::int64_t>(field->get().front().second);
}

std::string distillation_mistake(const ExperimentConfig& config) {
  const AlgorithmTraits& algorithm = config.algorithm.traits();
  const std::string& name = config.algorithm.name();
  if (algorithm.distills && !config.publics) {
    return fmt::format(
        "algorithm: {} learns from predictions on a public set; give `public` (`public: {{}}` splits it "
        "off the training data)",
        name);
  }
  if (!config.clients.models.empty() && !algorithm.any_network) {
    return fmt::format(
        "clients.models: algorithm: {} exchanges weights, so all clients have the server's network; use "
        "fedid, ds_fl, mhat, fedkd, fedmd or cronus",
        name);
  }
  if (!config.clients.models.empty() && config.trainer.cache.mode != ActivationCache::Mode::kOff) {
    return "trainer.cache: networks of `clients.models` cannot share one cache of activations; leave it out";
  }
  if (!config.publics) return "";
  if (algorithm.queries && config.publics->query.empty() && config.publics->query_share <= 0) {
    return fmt::format(
        "public.query_share: algorithm: {} needs labelled examples at the server; set it above 0, or "
        "give public.query",
        name);
  }
  if (whole_number_of(config.algorithm, "transfer_epochs") > 0 && !config.publics->labelled) {
    return "algorithm.transfer_epochs: clients learn the labels of the public set first, which has none; set "
           "public.labelled: true, or transfer_epochs: 0";
  }
  if (config.trainer.cache.mode != ActivationCache::Mode::kOff &&
      !(config.publics->unlabelled.empty() && config.publics->query.empty())) {
    return "trainer.cache: it is keyed by example of the training data, so a public set from other files cannot use "
           "it; "
           "leave one of them out";
  }
  if (config.continual) return "public: segments of time share no public set; leave out `continual`";
  if (config.attacks && algorithm.distills) {
    return fmt::format("attacks: they change updates, and algorithm: {} exchanges predictions; leave them out", name);
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
  if (config.selection.name() != "poisson" || !is_secret(config.selection)) {
    return fmt::format(
        "selection: aggregation: {} is accounted for with secret Poisson sampling; set selection: poisson (and leave "
        "out "
        "secret: false)",
        name);
  }
  if (!config.algorithm.traits().one_sum) {
    return fmt::format(
        "algorithm: {} uses more of the clients than one sum per round, which aggregation: {} does not protect; use "
        "fedavg, "
        "fedprox, fedopt or fedsgd",
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
  if (algorithm.own_mean && config.aggregation.name() != "mean") {
    return fmt::format("algorithm: {} averages in its own way, so aggregation: {} would have no effect; leave it out",
                       name, config.aggregation.name());
  }
  if (const std::string mistake = distillation_mistake(config); !mistake.empty()) return mistake;
  if ((algorithm.pooled || (algorithm.personal && !algorithm.distills)) && config.aggregation.name() != "mean") {
    return fmt::format("algorithm: {} has nothing to aggregate; leave out aggregation: {}", name,
                       config.aggregation.name());
  }
  if (const std::size_t least = config.aggregation.make()->least_updates();
      least > static_cast<std::size_t>(config.clients_per_round)) {
    return fmt::format(
        "aggregation: {} with these settings needs {} updates per round, but clients_per_round is {}; raise it, or "
        "expect fewer attackers",
        config.aggregation.name(), least, config.clients_per_round);
  }
  if (config.attacks && (algorithm.pooled || algorithm.personal)) {
    return fmt::format("attacks: algorithm: {} aggregates no updates that could be attacked; leave them out", name);
  }
  if (config.attacks && !config.compression.up.empty()) {
    return "attacks: attackers' updates do not pass through compression.up; leave one of them out";
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
  if (algorithm.asynchronous && buffer_of(config.algorithm) >= config.clients_per_round) {
    return fmt::format(
        "clients_per_round: {} has {} candidates in a round and waits for {} updates, so that nobody would be left at "
        "work (a synchronous method); set clients_per_round to algorithm.concurrency + algorithm.buffer, or a smaller "
        "buffer",
        name, config.clients_per_round, buffer_of(config.algorithm));
  }
  return aggregation.noisy_sum ? unprotected(config) : "";
}

}  // namespace chorus::inline experiment
