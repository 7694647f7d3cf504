#pragma once

#include <cstdint>
#include <vector>

#include "application/data/partition/partition.h"

namespace chorus::inline experiment {

/// Replay: what a client keeps of earlier segments it trains on again in later ones. Adds to each client's examples of
/// a segment at most `most` of its examples of earlier ones, drawn anew for each segment. A client without new examples
/// does not train.
void add_replay(std::vector<ClientLists>& segments, std::int64_t most, std::uint64_t seed);

}  // namespace chorus::inline experiment
