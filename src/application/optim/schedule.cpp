#include "application/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace chorus::inline optim {

void ScheduleConfig::describe(ConfigVisitor& visitor) {
  visitor.field("shape", shape,
                {{"constant", Shape::kConstant}, {"linear", Shape::kLinear}, {"cosine", Shape::kCosine}},
                "what the learning rate does after the warm-up");
  visitor.field("span", span, {{"round", Span::kRound}, {"run", Span::kRun}},
                "one course a round (FedNLP), or one over all rounds");
  visitor.field("warmup", warmup, "share of the steps (below 1), or so many steps").at_least(0);
  visitor.field("floor", floor, "the factor at the end").at_least(0).at_most(1);
}

double schedule_factor(const ScheduleConfig& config, const SchedulePoint& point) {
  double step = static_cast<double>(point.step);
  double steps = static_cast<double>(point.steps);
  if (config.span == ScheduleConfig::Span::kRun) {
    step += static_cast<double>(point.round) * steps;
    steps *= static_cast<double>(std::max<std::int64_t>(point.rounds, 1));
  }
  const double warmup = config.warmup < 1 ? std::ceil(config.warmup * steps) : config.warmup;
  if (step < warmup) return (step + 1) / (warmup + 1);
  const double done = std::clamp((step - warmup) / std::max(steps - warmup, 1.0), 0.0, 1.0);
  double factor = 1;
  if (config.shape == ScheduleConfig::Shape::kLinear) factor = 1 - done;
  if (config.shape == ScheduleConfig::Shape::kCosine) factor = 0.5 * (1 + std::cos(std::numbers::pi * done));
  return config.floor + (1 - config.floor) * factor;
}

}  // namespace chorus::inline optim
