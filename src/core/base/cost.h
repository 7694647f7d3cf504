#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace chorus::inline base {

/// The cost of one reply on the client's own device, on the emulated clock. All zero without emulation.
struct Cost {
  double seconds = 0;          ///< from the request until the server has the reply, or stops waiting
  double compute_seconds = 0;  ///< of these, computing
  double network_seconds = 0;  ///< of these, sending or receiving
  double joules = 0;           ///< including work that was not used
  double bytes_down = 0, bytes_up = 0;
  double memory = 0;  ///< peak bytes; 0: not in the device's profile
};

/// Emulated costs of a run so far.
struct EmulatedTotals {
  double seconds = 0;        ///< the emulated clock
  double joules = 0;         ///< of all clients
  double client_joules = 0;  ///< mean over the clients asked in a round, summed over rounds
  double client_bytes = 0;   ///< both ways, counted likewise (as Cai et al. 2023 report traffic and energy)
  double memory = 0;         ///< peak bytes of any client; 0: unknown

  /// What came after this.
  EmulatedTotals& operator+=(const EmulatedTotals& more) {
    seconds += more.seconds;
    joules += more.joules;
    client_joules += more.client_joules;
    client_bytes += more.client_bytes;
    memory = std::max(memory, more.memory);
    return *this;
  }
};

/// The costs up to one evaluation.
struct Milestone {
  std::int64_t round = 0;
  double score = 0;    ///< main score
  double seconds = 0;  ///< real time
  double bytes = 0;    ///< of all clients, both ways
  EmulatedTotals emulated = {};
};

/// The costs of reaching a target score. `reached`: the first evaluation at least as good; `before`: the one before it,
/// which Cai et al. 2023 report.
struct TargetReached {
  double target = 0;
  std::optional<Milestone> reached = {}, before = {};
};

}  // namespace chorus::inline base
