#pragma once

#include <cstdint>
#include <filesystem>
#include <map>

#include "application/trainer/client_pool.h"

namespace chorus::inline serving {

/// What the one client of a process keeps between the rounds of a run, in a folder of its own: the state after round r
/// is the file r.safetensors. The last few are kept, because a server that was killed goes on from an earlier round,
/// and then asks again.
///
///     ClientStates states(identity / "runs" / run, 4);
///     states.rewind(job.done);                       // later rounds never happened
///     ClientHalf half({..., .states = states.shelf()});
class ClientStates {
 public:
  /// Makes the folder when it is missing. `keep`: states.
  ClientStates(std::filesystem::path folder, std::size_t keep);

  /// Forgets what was stored after `round`.
  void rewind(std::int64_t round);
  StateShelf shelf();
  /// The round of the newest state; 0: there is none.
  std::int64_t newest() const { return rounds_.empty() ? 0 : rounds_.rbegin()->first; }

 private:
  ClientState load() const;
  void store(std::int64_t round, const ClientState& state);
  std::filesystem::path path_of(std::int64_t round) const;

  std::filesystem::path folder_;
  std::size_t keep_;
  std::map<std::int64_t, std::filesystem::path> rounds_;
};

}  // namespace chorus::inline serving
