#pragma once

#include <cstdint>
#include <string>

namespace chorus::inline base {

/// The differential privacy of a run so far, for reports.
struct PrivacyReport {
  double epsilon = 0, delta = 0;
  double noise = 0;            ///< standard deviation / sensitivity
  double sampling_rate = 0;    ///< probability that a client takes part in a round
  std::int64_t charges = 0;    ///< releases, including rounds repeated after a crash
  std::string statement = {};  ///< what is protected, in words
};

}  // namespace chorus::inline base
