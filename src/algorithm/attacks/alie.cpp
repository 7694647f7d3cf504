#include "algorithm/attacks/alie.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace chorus::inline attacks {

void AlieConfig::describe(ConfigVisitor& visitor) {
  visitor.field("z", z, "standard deviations away from the mean; 0: the largest that goes undetected").at_least(0);
}

double Alie::largest_z(std::size_t n, std::size_t m) {
  const std::size_t majority = n / 2 + 1;
  if (m >= majority || m >= n) return 0;
  const double honest = static_cast<double>(n - m);
  const double below = (honest - static_cast<double>(majority - m)) / honest;
  return std::max(0.0, at::special_ndtri(at::scalar_tensor(below, at::kDouble)).item<double>());
}

std::vector<at::Tensor> Alie::corrupt(const AttackInput& input) const {
  if (input.own.empty()) return {};
  const at::Tensor all = at::stack(std::vector<at::Tensor>(input.own.begin(), input.own.end()));
  const double z = config_.z > 0 ? config_.z : largest_z(input.cohort, input.attackers);
  const at::Tensor sent = all.mean(0) - z * all.std(0, /*unbiased=*/false);
  return std::vector<at::Tensor>(input.own.size(), sent);
}

namespace {

const Registration<Attacks, AlieConfig> kRegisteredAlie{
    "alie",
    "a little is enough: all attackers send mean - z deviation (Baruch et al. 2019)",
    [](const AlieConfig& config) { return std::make_unique<Alie>(config); },
    {.sees = Attack::Sees::kAttackers}};

}  // namespace
}  // namespace chorus::inline attacks
