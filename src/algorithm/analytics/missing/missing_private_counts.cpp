#include "algorithm/analytics/private_counts.h"
#include "core/base/error.h"

namespace chorus::inline analytics {

PrivateCounts::PrivateCounts(const PrivateCountsConfig& config) : config_(config) {
  throw ConfigError("private counts need libsodium for their noise (install libsodium-dev, and build again)");
}

void PrivateCounts::add(const std::map<std::string, double>&) {}

std::vector<std::pair<std::string, double>> PrivateCounts::release() { return {}; }

}  // namespace chorus::inline analytics
