#pragma once

#include <cstdint>

namespace chorus::inline base {

/// A client of a federation; the same one for the whole run (core/ports/roster.h).
using ClientId = std::uint32_t;

}  // namespace chorus::inline base
