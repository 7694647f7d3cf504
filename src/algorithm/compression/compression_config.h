#pragma once

#include "algorithm/compression/filter_chain.h"

namespace chorus::inline compression {

/// The experiment's key `compression`: what passes between numbers and wire, in each direction.
///
///     compression: {up: [{name: top_k, k: 0.01}, {name: uniform, bits: 4}, zstd], down: [fp16]}
struct CompressionConfig {
  FilterList up = {};    ///< of what clients send
  FilterList down = {};  ///< of what the server sends

  bool any() const { return !up.empty() || !down.empty(); }
  void describe(ConfigVisitor& visitor);
};

}  // namespace chorus::inline compression
