#pragma once

#include "algorithm/compression/filter_chain.h"

namespace chorus::inline compression {

/// The experiment's key `compression`: the filters between vectors and the wire, in each direction.
///
///     compression: {up: [{name: top_k, k: 0.01}, {name: uniform, bits: 4}, zstd], down: [fp16]}
struct CompressionConfig {
  FilterList up = {};    ///< clients to server
  FilterList down = {};  ///< server to clients

  bool any() const { return !up.empty() || !down.empty(); }
  void describe(ConfigVisitor& visitor);
};

}  // namespace chorus::inline compression
