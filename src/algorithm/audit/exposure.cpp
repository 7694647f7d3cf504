#include "algorithm/audit/exposure.h"

#include <cmath>

namespace chorus::inline audit {

Exposure exposure(double loss, std::span<const double> references) {
  Exposure result;
  for (const double other : references) {
    // A loss that is not a number tells nothing: the canary is not ranked before it.
    if (!(other > loss)) ++result.rank;
  }
  result.bits = std::log2(static_cast<double>(references.size()) + 1) - std::log2(static_cast<double>(result.rank));
  return result;
}

}  // namespace chorus::inline audit
