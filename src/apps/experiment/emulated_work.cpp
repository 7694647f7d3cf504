#include "apps/experiment/emulated_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "infrastructure/emulation/fleet.h"

namespace chorus::inline experiment {

EmulatedWork emulated_work(const TaskModel& model) {
  const Model& network = model.model();
  std::int64_t lowest = network.layers();
  for (const ParamSpec& spec : network.layout().specs()) {
    if (spec.trainable && spec.layer != kHeadLayer) lowest = std::min<std::int64_t>(lowest, std::max(spec.layer, 0));
  }
  EmulatedWork work;
  work.layers = network.layers();
  work.depth = static_cast<double>(work.layers - lowest);
  if (model.network().tuning().keeps_network()) work.way.method = TuningWay::Method::kAdapter;
  work.way.cached = model.config().trainer.cache.mode == ActivationCache::Mode::kKeep;
  work.batch_size = model.config().trainer.batch_size;
  work.sequence_length = model.task().max_length();
  return work;
}

std::map<std::string, EmulatedWork> emulated_work(std::span<const ClientNetwork> networks) {
  std::map<std::string, EmulatedWork> works;
  for (const ClientNetwork& network : networks) works[network.key] = emulated_work(*network.model);
  return works;
}

double round_batches(const TrainerConfig& trainer, double examples) {
  if (trainer.steps) return static_cast<double>(*trainer.steps * trainer.accumulate);
  return std::ceil(examples / static_cast<double>(trainer.batch_size)) * static_cast<double>(trainer.epochs);
}

std::size_t check_emulation(const TaskModel& model, std::span<const ClientNetwork> networks) {
  const ExperimentConfig& config = model.config();
  const auto clients = static_cast<std::size_t>(config.clients_per_round);
  if (!config.emulation) return clients;
  const Fleet fleet(*config.emulation, static_cast<std::uint64_t>(config.seed));
  fleet.check_work(emulated_work(model));
  for (const auto& [key, work] : emulated_work(networks)) {
    try {
      fleet.check_work(work);
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("clients.models: {}: {}", key, error.what()));
    }
  }
  return static_cast<std::size_t>(std::ceil(config.emulation->over_selection * static_cast<double>(clients) - 1e-9));
}

}  // namespace chorus::inline experiment
