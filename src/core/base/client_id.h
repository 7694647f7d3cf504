#pragma once

#include <cstdint>

namespace chorus {

/// Identifies a client of a federation: 0 .. clients - 1.
using ClientId = std::uint32_t;

}  // namespace chorus
