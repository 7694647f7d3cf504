#include "algorithm/selection/available.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/rng.h"

namespace chorus::inline selection {

void AvailableConfig::describe(ConfigVisitor& v) {
  v.field("selector", selector, "chooses among the reachable clients");
  v.field("trace", trace, "file of client,start,end lines; unset: the diurnal model").path().existing();
  v.field("unit", unit, {{"rounds", TraceUnit::kRounds}, {"seconds", TraceUnit::kSeconds}},
          "unit of the trace: rounds, or seconds of the emulated clock");
  v.field("period", period, "the trace repeats after this many units; 0: never").at_least(0);
  v.field("rounds_per_day", rounds_per_day, "diurnal model: rounds per day").above(0);
  v.field("share", share, "diurnal model: share of each day that a client is reachable").above(0).at_most(1);
  v.field("spread", spread, "diurnal model: share of the day over which the clients' mornings are spread")
      .at_least(0)
      .at_most(1);
}

AvailableSelector::AvailableSelector(const AvailableConfig& config) : config_(config), inner_(config.selector.make()) {
  if (config_.trace) trace_ = AvailabilityTrace::read(*config_.trace);
}

std::vector<std::uint8_t> AvailableSelector::reachable(const SelectionContext& context) const {
  std::vector<std::uint8_t> answer(context.sizes.size(), 0);
  check(context.reachable.empty() || context.reachable.size() == answer.size(),
        "reachable and sizes have different numbers of clients");
  double now = static_cast<double>(context.round);
  if (trace_) {
    trace_->check_clients(answer.size());
    if (config_.unit == TraceUnit::kSeconds) {
      if (!context.seconds) {
        throw ConfigError(fmt::format(
            "the availability trace {} is in seconds, but this run has no emulated clock; add the key `emulation`, or "
            "use a trace with unit: rounds",
            *config_.trace));
      }
      now = *context.seconds;
    }
  }
  for (std::size_t client = 0; client < answer.size(); ++client) {
    if (!context.reachable.empty() && context.reachable[client] == 0) continue;
    if (trace_) {
      answer[client] = trace_->reachable(static_cast<ClientId>(client), now, config_.period);
      continue;
    }
    RandomStream stream({.seed = context.seed, .purpose = "selection.available", .client = client});
    const double hour = now / config_.rounds_per_day - config_.spread * stream.uniform();
    answer[client] = hour - std::floor(hour) < config_.share;
  }
  return answer;
}

std::size_t AvailableSelector::most(const SelectionContext& context) const {
  const std::vector<std::uint8_t> answer = reachable(context);
  SelectionContext now = context;
  now.reachable = answer;
  return inner_->most(now);
}

std::size_t AvailableSelector::most_ever(const SelectionContext& context) const {
  reachable(context);  // throws for a trace that does not fit
  SelectionContext everyone = context;
  everyone.reachable = {};
  return inner_->most_ever(everyone);
}

std::vector<ClientId> AvailableSelector::select(const SelectionContext& context) const {
  // A count that can never be met is a mistake in the configuration, not a matter of availability.
  check_count(context, most_ever(context), "clients that could be selected if all were reachable");
  const std::vector<std::uint8_t> answer = reachable(context);
  SelectionContext now = context;
  now.reachable = answer;
  now.count = std::min(context.count, inner_->most(now));
  return now.count == 0 ? std::vector<ClientId>{} : inner_->select(now);
}

namespace {

const Registration<Selectors, AvailableConfig> kRegisteredAvailable{
    "available", "clients that come and go, by a trace or the time of day",
    [](const AvailableConfig& config) { return std::make_unique<AvailableSelector>(config); }};

}  // namespace
}  // namespace chorus::inline selection
