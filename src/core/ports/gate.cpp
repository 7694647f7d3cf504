#include "core/ports/gate.h"

#include <cmath>

namespace chorus::inline ports {

double GateTotals::error() const { return norm2 > 0 ? std::sqrt(error2 / norm2) : 0; }

GateTotals& GateTotals::operator+=(const GateTotals& more) {
  raw += more.raw;
  packed += more.packed;
  norm2 += more.norm2;
  error2 += more.error2;
  return *this;
}

}  // namespace chorus::inline ports
