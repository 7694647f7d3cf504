#pragma once

#include <memory>
#include <optional>
#include <string>

#include "algorithm/selection/availability_trace.h"
#include "algorithm/selection/selector.h"

namespace chorus {

enum class TraceUnit { kRounds, kSeconds };

struct AvailableConfig {
  Choice<Selectors> selector{"uniform"};  ///< who chooses among those that can be reached
  std::optional<std::string> trace;       ///< the trace file (availability_trace.h); without: the diurnal model
  TraceUnit unit = TraceUnit::kRounds;    ///< of the trace: rounds, or seconds of the emulated clock
  double period = 0;                      ///< the trace repeats after so many units; 0: it does not
  double rounds_per_day = 24;             ///< diurnal model: rounds in a day
  double share = 0.3;                     ///< diurnal model: share of each day a client can be reached, in (0, 1]
  double spread = 1;                      ///< diurnal model: share of the day the clients' mornings are spread over, in
                                          ///< [0, 1]; 0: all wake up together, 1: around the clock

  void describe(ConfigVisitor& v);
};

/// Clients that come and go, around another selector. From a trace, or from a diurnal model: client c, whose morning
/// m_c in [0, spread) is drawn once from (seed, c), can be reached in round r when frac(r / rounds_per_day - m_c) <
/// share. When fewer can be reached than asked for, takes all that the inner selector could take, perhaps nobody: an
/// empty cohort is a round in which nothing happens. Wrappers nest. Registered as "available".
///
///     selection: {name: available, trace: phones.csv, selector: {name: weighted, f: log}}
class AvailableSelector : public Selector {
 public:
  /// Reads the trace: DataError as AvailabilityTrace::read.
  explicit AvailableSelector(const AvailableConfig& config);
  /// ConfigError when the trace is in seconds and the context has none; DataError when it names an unknown client.
  std::vector<ClientId> select(const SelectionContext& context) const override;
  std::size_t most(const SelectionContext& context) const override;
  std::size_t most_ever(const SelectionContext& context) const override;

  /// One entry a client: 1 when it can be reached in this context.
  std::vector<std::uint8_t> reachable(const SelectionContext& context) const;

 private:
  AvailableConfig config_;
  std::unique_ptr<Selector> inner_;
  std::optional<AvailabilityTrace> trace_;
};

}  // namespace chorus
