#pragma once

#include <optional>
#include <span>
#include <string>

#include "core/ports/tracker.h"

namespace chorus::inline tracking {

/// What both sides of a network that is cut in two need: activations and their gradients as float32 over all rounds,
/// and the largest memory of a round.
struct SplitCosts {
  double up = 0, down = 0;                      ///< bytes
  double client_memory = 0, server_memory = 0;  ///< bytes
  double client_parameters = 0, server_parameters = 0;
};

/// From the events of a run; nothing where no network was cut.
std::optional<SplitCosts> split_costs(std::span<const Event> events);
/// For people, two lines.
std::string split_costs_text(const SplitCosts& costs);

}  // namespace chorus::inline tracking
