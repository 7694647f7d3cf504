#include "apps/experiment/canary_exposure.h"

#include <algorithm>

#include "algorithm/audit/exposure.h"
#include "application/trainer/example_losses.h"

namespace chorus::inline experiment {

std::vector<double> loss_changes(const Experiment& experiment, const at::Tensor& start, const at::Tensor& model,
                                 std::span<const std::uint32_t> examples) {
  const TrainerInput trainer{experiment.task(), experiment.model(), experiment.params()};
  std::vector<double> result = example_losses(trainer, model, experiment.train(), examples);
  const std::vector<double> before = example_losses(trainer, start, experiment.train(), examples);
  for (std::size_t i = 0; i < result.size(); ++i) result[i] -= before[i];
  return result;
}

std::vector<std::uint32_t> canary_examples(const Experiment& experiment) {
  std::vector<std::uint32_t> result;
  for (const Canary& canary : experiment.canaries()) result.push_back(canary.examples.front());
  return result;
}

double median_exposure(const Experiment& experiment, const at::Tensor& start, const at::Tensor& model) {
  const auto moved = loss_changes(experiment, start, model, canary_examples(experiment));
  const auto references = loss_changes(experiment, start, model, experiment.canary_references());
  std::vector<double> bits;
  for (std::size_t i = 0; i < moved.size(); ++i) {
    if (experiment.canaries()[i].planted) bits.push_back(exposure(moved[i], references).bits);
  }
  if (bits.empty()) return 0;
  const auto middle = bits.begin() + static_cast<std::ptrdiff_t>(bits.size() / 2);
  std::nth_element(bits.begin(), middle, bits.end());
  return *middle;
}

}  // namespace chorus::inline experiment
