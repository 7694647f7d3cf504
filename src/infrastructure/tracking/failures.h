#pragma once

#include <span>
#include <string>

#include "core/ports/tracker.h"

namespace chorus::inline tracking {

/// How often clients were left out of rounds, with the most frequent reason, in one line for people; empty: never. Does
/// not count what an emulation left out, which was asked for.
std::string failures_text(std::span<const Event> events);

}  // namespace chorus::inline tracking
