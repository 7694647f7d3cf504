#pragma once

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

}  // namespace chorus
