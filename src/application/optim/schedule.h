#pragma once

#include <cstdint>

#include "core/config/config_visitor.h"

namespace chorus::inline optim {

/// The course of the learning rate, as a factor between 0 and 1.
struct ScheduleConfig {
  enum class Shape { kConstant, kLinear, kCosine };
  enum class Span { kRound, kRun };

  Shape shape = Shape::kLinear;  ///< after the warm-up: constant, linear to `floor`, or half a cosine
  Span span = Span::kRound;      ///< one schedule per round (FedNLP), or one over the whole run
  double warmup = 0.06;          ///< fraction of the steps (below 1), or a number of steps; rounded up
  double floor = 0;              ///< the factor at the end

  void describe(ConfigVisitor& visitor);
};

/// The position of a step: step of steps in round of rounds, both from 0.
struct SchedulePoint {
  std::int64_t step = 0, steps = 1;
  std::int64_t round = 0, rounds = 1;
};

/// The factor of one step: (step + 1) / (w + 1) during a warm-up of w steps, then as in Hugging Face's schedules, with
/// (steps - step) / (steps - w) for the linear one. Hugging Face's warm-up starts at 0, so a client with a single step
/// would learn nothing. With span = run, the position in the run is `round` * `steps` + `step`, so a client's own
/// number of steps decides.
double schedule_factor(const ScheduleConfig& config, const SchedulePoint& point);

}  // namespace chorus::inline optim
