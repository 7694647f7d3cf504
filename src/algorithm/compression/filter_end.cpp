#include "algorithm/compression/filter_end.h"

#include <ATen/ATen.h>

namespace chorus::inline compression {
namespace {

MessageFiltersInput of_direction(const FilterEndInput& input, bool up) {
  MessageFiltersInput result;
  result.filters = up ? input.config.up : input.config.down;
  result.purpose = up ? "filters/up" : "filters/down";
  result.seed = input.seed;
  result.blocks = input.blocks;
  result.variants = input.variants;
  result.one_variant = up;
  if (!up && input.reference.defined()) result.reference = input.reference.detach().cpu().contiguous();
  return result;
}

}  // namespace

FilterEnd::FilterEnd(const FilterEndInput& input, Side side)
    : out_(of_direction(input, side == Side::kClient)),
      in_(of_direction(input, side == Side::kServer)),
      device_(input.device),
      most_(input.most_elements) {}

}  // namespace chorus::inline compression
