#include "algorithm/adafl/configurator.h"

#include <algorithm>
#include <cmath>

namespace chorus::inline adafl {

Variant Configurator::variant(Branch branch) const {
  Variant result = now_;
  if (branch == kDeep) {
    result.depth = std::min(rules_.most_depth, now_.depth + rules_.depth_step);
    if (rules_.skip_depth_one && result.depth == 1) result.depth = std::min(rules_.most_depth, 2);
  }
  if (branch == kWide) result.width = std::min(rules_.most_width, now_.width + rules_.width_step);
  return result;
}

std::int64_t Configurator::rounds(double round_seconds) const {
  return static_cast<std::int64_t>(std::floor(trial_seconds() / round_seconds));
}

Configurator::Branch Configurator::winner(const std::array<double, 3>& scores) {
  Branch best = kShallow;
  for (const Branch branch : {kWide, kDeep}) {
    if (scores[branch] > scores[best] || std::isnan(scores[best])) best = branch;
  }
  return best;
}

}  // namespace chorus::inline adafl
