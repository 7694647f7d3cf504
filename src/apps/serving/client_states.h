#pragma once

#include <cstdint>
#include <filesystem>
#include <map>

#include "application/trainer/client_pool.h"

namespace chorus::inline serving {

/// What the one client of a process keeps between the rounds of a run, in a folder of its own: a file per reply,
/// written before the reply leaves. A request says by the number of an earlier request which of these states it builds
/// on, so nothing depends on what the client heard of its replies: it may die between sending one and hearing that it
/// counts, and a server that was killed goes on from an earlier state. Those of the last few rounds are kept for that;
/// empty ones, which say only that the request was answered, all of them.
///
///     ClientStates states(identity / "runs" / run, 6);
///     if (!states.begin(number, kept)) ...           // before each request: the state it builds on is lost
///     ClientHalf half({..., .states = states.shelf()});
class ClientStates {
 public:
  /// Makes the folder when it is missing. `rounds`: whose states are kept, of those up to the current state.
  ClientStates(std::filesystem::path folder, std::size_t rounds);

  /// A request: what is stored next is its state, and what is loaded is the state of request `kept` (0: none). False:
  /// that state is not here.
  [[nodiscard]] bool begin(std::uint64_t number, std::uint64_t kept);
  StateShelf shelf();

 private:
  struct Stored {
    std::uint64_t number = 0, round = 0;
    std::filesystem::path path;
    bool empty = false;
    bool passed_over = false;  // written by this process, and no request has built on it
  };
  static Stored stored(std::uint64_t number, std::uint64_t round, const std::filesystem::path& path);
  ClientState load() const;
  void store(std::uint64_t round, const ClientState& state);
  void prune();

  std::filesystem::path folder_;
  std::size_t rounds_;
  std::map<std::uint64_t, Stored> stored_;  // in the order they were written
  std::uint64_t number_ = 0, current_ = 0;  // of the request; key of the state it builds on, 0: none
};

}  // namespace chorus::inline serving
