#pragma once

#include <compare>

namespace chorus::inline ports {

/// The trained part of a tunable network: what is attached (adapters, low-rank updates, prefixes) in its top `depth`
/// layers, `width` wide (bottleneck, rank, length). -1: as much as the run has.
struct Variant {
  int depth = -1;
  int width = -1;
  auto operator<=>(const Variant&) const = default;
};

}  // namespace chorus::inline ports
