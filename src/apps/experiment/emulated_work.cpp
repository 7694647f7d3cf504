#include "apps/experiment/emulated_work.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "infrastructure/emulation/fleet.h"

namespace chorus::inline experiment {

EmulatedWork emulated_work(const Experiment& experiment) {
  const Model& model = experiment.model();
  std::int64_t lowest = model.layers();
  for (const ParamSpec& spec : model.layout().specs()) {
    if (spec.trainable && spec.layer != kHeadLayer) lowest = std::min<std::int64_t>(lowest, std::max(spec.layer, 0));
  }
  EmulatedWork work;
  work.layers = model.layers();
  work.depth = static_cast<double>(work.layers - lowest);
  if (experiment.network().tuning().keeps_network()) work.way.method = TuningWay::Method::kAdapter;
  work.way.cached = experiment.config().trainer.cache.mode == ActivationCache::Mode::kKeep;
  work.batch_size = experiment.config().trainer.batch_size;
  work.sequence_length = experiment.task().max_length();
  return work;
}

double round_batches(const TrainerConfig& trainer, double examples) {
  if (trainer.steps) return static_cast<double>(*trainer.steps * trainer.accumulate);
  return std::ceil(examples / static_cast<double>(trainer.batch_size)) * static_cast<double>(trainer.epochs);
}

std::size_t check_emulation(const Experiment& experiment) {
  const ExperimentConfig& config = experiment.config();
  const auto clients = static_cast<std::size_t>(config.clients_per_round);
  if (!config.emulation) return clients;
  const Fleet fleet(*config.emulation, static_cast<std::uint64_t>(config.seed));
  fleet.check_work(emulated_work(experiment));
  return static_cast<std::size_t>(std::ceil(config.emulation->over_selection * static_cast<double>(clients) - 1e-9));
}

}  // namespace chorus::inline experiment
