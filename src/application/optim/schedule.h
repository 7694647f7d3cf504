#pragma once

#include <cstdint>

#include "core/config/config_visitor.h"

namespace chorus::inline optim {

/// How the learning rate goes, as a factor between 0 and 1.
struct ScheduleConfig {
  enum class Shape { kConstant, kLinear, kCosine };
  enum class Span { kRound, kRun };

  Shape shape = Shape::kLinear;  ///< after the warm-up: stays, falls linearly to `floor`, or as half a cosine
  Span span = Span::kRound;      ///< one course a round (FedNLP), or one over all rounds of the run
  double warmup = 0.06;          ///< share of the steps (below 1), or so many steps; rounded up
  double floor = 0;              ///< the factor at the end

  void describe(ConfigVisitor& visitor);
};

/// Where a step stands: step of steps in round of rounds. Both count from 0.
struct SchedulePoint {
  std::int64_t step = 0, steps = 1;
  std::int64_t round = 0, rounds = 1;
};

/// The factor of one step: (step + 1) / (w + 1) during a warm-up of w steps, then as Hugging Face's schedules, with
/// (steps - step) / (steps - w) for the linear one. Hugging Face's warm-up begins at 0, which would make a client with
/// a single step learn nothing. With span = run the place in the run is `round` times `steps` plus the step, so that a
/// client's own number of steps decides.
double schedule_factor(const ScheduleConfig& config, const SchedulePoint& point);

}  // namespace chorus::inline optim
