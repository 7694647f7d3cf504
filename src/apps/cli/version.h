#pragma once

namespace chorus::inline cli {

/// "0.2.0", or between releases "0.2.0+41.g2432c96" with the number of commits since the release and the newest one,
/// and ".changed" where files differ from it (cmake/version.cmake).
const char* version();

}  // namespace chorus::inline cli
