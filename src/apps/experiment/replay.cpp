#include "apps/experiment/replay.h"

#include <algorithm>

#include "core/base/rng.h"

namespace chorus::inline experiment {

void add_replay(std::vector<ClientLists>& segments, std::int64_t most, std::uint64_t seed) {
  if (most == 0) return;
  const std::vector<ClientLists> fresh = segments;
  for (std::size_t s = 1; s < segments.size(); ++s) {
    ClientLists lists;
    for (std::size_t client = 0; client < fresh[s].clients(); ++client) {
      std::vector<ExampleId> mine(fresh[s][client].begin(), fresh[s][client].end()), old;
      for (std::size_t earlier = 0; earlier < s; ++earlier) {
        old.insert(old.end(), fresh[earlier][client].begin(), fresh[earlier][client].end());
      }
      RandomStream stream({.seed = seed, .purpose = "replay", .client = client, .step = s});
      stream.shuffle(std::span(old));
      old.resize(std::min(old.size(), static_cast<std::size_t>(most)));
      if (!mine.empty()) mine.insert(mine.end(), old.begin(), old.end());
      lists.append(mine);
    }
    segments[s] = std::move(lists);
  }
}

}  // namespace chorus::inline experiment
