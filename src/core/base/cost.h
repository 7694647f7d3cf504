#pragma once

#include <cstdint>
#include <optional>

namespace chorus {

/// What one answer would have cost on the client's own device (DESIGN, idea 6: the emulated clock). All zero where
/// nobody emulates.
struct Cost {
  double seconds = 0;          ///< from being asked until the server has the answer, or stops waiting for it
  double compute_seconds = 0;  ///< of them, spent computing
  double network_seconds = 0;  ///< and sending or receiving
  double joules = 0;           ///< spent, also on work that nobody used
  double bytes_down = 0, bytes_up = 0;
  double memory = 0;  ///< bytes at the peak; 0: the device's profile does not tell
};

/// The same over a whole run, or up to a moment of it.
struct EmulatedTotals {
  double seconds = 0;        ///< the clock
  double joules = 0;         ///< of all clients
  double client_joules = 0;  ///< of one that is asked in every round: the mean over those asked, summed over the rounds
  double client_bytes = 0;   ///< both ways, in the same sense (paper 003 reports traffic and energy so)
  double memory = 0;         ///< the most that a client needed, bytes; 0: not known
};

/// What it had taken to get to an evaluation.
struct Milestone {
  std::int64_t round = 0;
  double score = 0;    ///< the main one
  double seconds = 0;  ///< of real work
  double bytes = 0;    ///< of all clients, both ways
  EmulatedTotals emulated = {};
};

/// A score that a run should reach. `reached`: the first evaluation that was as good; `before`: the one before it,
/// which is what paper 003 reports (REFERENCE 4.4).
struct TargetReached {
  double target = 0;
  std::optional<Milestone> reached = {}, before = {};
};

}  // namespace chorus
