#pragma once

#include <cstdint>
#include <filesystem>
#include <map>

#include "application/trainer/client_pool.h"

namespace chorus::inline serving {

/// What the one client of a process keeps between the rounds of a run, in a folder of its own: a file per reply,
/// written before the reply leaves. A request says by the number of an earlier request which of these states it builds
/// on, so nothing depends on what the client heard of its replies: it may die between sending one and hearing that it
/// counts, and a server that was killed goes on from an earlier state. The last few states are kept for that; empty
/// ones, which say only that the request was answered, all of them.
///
///     ClientStates states(identity / "runs" / run, 4);
///     if (!states.begin(number, kept)) ...           // before each request: the state it builds on is lost
///     ClientHalf half({..., .states = states.shelf()});
class ClientStates {
 public:
  /// Makes the folder when it is missing. `keep`: states up to the current one.
  ClientStates(std::filesystem::path folder, std::size_t keep);

  /// A request: what is stored next is its state, and what is loaded is the state of request `kept` (0: none). False:
  /// that state is not here.
  [[nodiscard]] bool begin(std::uint64_t number, std::uint64_t kept);
  StateShelf shelf();

 private:
  struct Stored {
    std::uint64_t number = 0;
    std::filesystem::path path;
    bool empty = false;
  };
  static Stored stored(std::uint64_t number, const std::filesystem::path& path);
  ClientState load() const;
  void store(const ClientState& state);
  void prune();

  std::filesystem::path folder_;
  std::size_t keep_;
  std::map<std::uint64_t, Stored> stored_;  // in the order they were written
  std::uint64_t number_ = 0, current_ = 0;  // of the request; key of the state it builds on, 0: none
};

}  // namespace chorus::inline serving
