#include "apps/experiment/run_filters.h"

#include <torch/types.h>

#include <algorithm>

namespace chorus::inline experiment {
namespace {

std::vector<FilterBlock> blocks_of(const Layout& layout, std::int64_t numbers) {
  std::vector<FilterBlock> blocks;
  if (numbers != layout.trainable_size()) return blocks;
  for (const ParamSpec& spec : layout.specs()) {
    if (spec.trainable) blocks.push_back({spec.offset, spec.shape});
  }
  std::sort(blocks.begin(), blocks.end(),
            [](const FilterBlock& a, const FilterBlock& b) { return a.offset < b.offset; });
  return blocks;
}

}  // namespace

FilterEndInput filter_input(const Experiment& experiment) {
  const Layout& layout = experiment.model().layout();
  FilterEndInput input;
  input.config = experiment.config().compression;
  input.seed = static_cast<std::uint64_t>(experiment.config().seed);
  input.blocks = [&layout](std::int64_t numbers) { return blocks_of(layout, numbers); };
  input.variants = &experiment.network();
  input.reference = experiment.params().values()[0];
  input.device = experiment.params().device();
  input.most_elements = std::max(input.most_elements, static_cast<std::size_t>(layout.size()));
  return input;
}

}  // namespace chorus::inline experiment
