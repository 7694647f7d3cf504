#pragma once

#include <memory>
#include <optional>
#include <string>

#include "algorithm/selection/availability_trace.h"
#include "algorithm/selection/selector.h"

namespace chorus::inline selection {

enum class TraceUnit { kRounds, kSeconds };

struct AvailableConfig {
  Choice<Selectors> selector{"uniform"};  ///< chooses among the reachable clients
  std::optional<std::string> trace;       ///< trace file (availability_trace.h); unset: the diurnal model
  TraceUnit unit = TraceUnit::kRounds;    ///< unit of the trace: rounds, or seconds of the emulated clock
  double period = 0;                      ///< the trace repeats after this many units; 0: never
  double rounds_per_day = 24;             ///< diurnal model: rounds per day
  double share = 0.3;                     ///< diurnal model: share of each day that a client is reachable, in (0, 1]
  double spread = 1;                      ///< diurnal model: share of the day over which the clients' mornings are
                                          ///< spread, in [0, 1]; 0: all at once, 1: around the clock

  void describe(ConfigVisitor& v);
};

/// Clients that come and go, around another selector. From a trace, or from a diurnal model: client c, whose morning
/// m_c in [0, spread) is drawn once from (seed, c), is reachable in round r when frac(r / rounds_per_day - m_c) <
/// share. When fewer are reachable than requested, takes all that the inner selector could take, possibly none: an
/// empty cohort is a round in which nothing happens. Wrappers nest. Registered as "available".
///
///     selection: {name: available, trace: phones.csv, selector: {name: weighted, f: log}}
class AvailableSelector : public Selector {
 public:
  /// Reads the trace; errors as for AvailabilityTrace::read.
  explicit AvailableSelector(const AvailableConfig& config);
  /// ConfigError when the trace is in seconds and there is no clock; DataError when it names an unknown client.
  std::vector<ClientId> select(const SelectionContext& context) const override;
  std::size_t most(const SelectionContext& context) const override;
  std::size_t most_ever(const SelectionContext& context) const override;

  /// One entry per client: 1 when reachable in this context.
  std::vector<std::uint8_t> reachable(const SelectionContext& context) const;

 private:
  AvailableConfig config_;
  std::unique_ptr<Selector> inner_;
  std::optional<AvailabilityTrace> trace_;
};

}  // namespace chorus::inline selection
