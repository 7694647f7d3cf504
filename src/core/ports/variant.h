#pragma once

#include <compare>

namespace chorus::inline ports {

/// How much of a tunable network takes part: what is attached (adapters, low-rank updates, prefixes) in its top `depth`
/// layers, `width` wide (bottleneck, rank, length). -1: as much as the run has.
struct Variant {
  int depth = -1;
  int width = -1;
  auto operator<=>(const Variant&) const = default;
};

}  // namespace chorus::inline ports
