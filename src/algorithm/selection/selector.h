#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/client_id.h"
#include "core/config/registry.h"

namespace chorus::inline selection {

/// What a selector knows in one round.
struct SelectionContext {
  std::span<const double> sizes;  ///< training examples per client; 0: never selected
  std::size_t count = 0;          ///< clients to select, at least 1
  /// Clients that privacy is accounted for: where fewer are left, none is drawn with a larger probability than
  /// count / population. 0: those that are there.
  std::size_t population = 0;
  std::uint64_t seed = 0, round = 0;  ///< keys of all random draws
  /// The current losses of the given clients, in order (for power_of_choice); may be empty.
  std::function<std::vector<double>(std::span<const ClientId>)> losses{};
  /// The emulated clock at the start of the round, in seconds, if there is one (for `available` with a trace in
  /// seconds).
  std::optional<double> seconds{};
  /// One entry per client, 0 for unreachable ones. Empty: all are reachable.
  std::span<const std::uint8_t> reachable{};
};

/// Chooses the clients of a round (Dupuy et al. 2022, section 3, "Device Selection"). Stateless and thread-safe: the
/// same context gives the same cohort, so a resumed run needs no state.
///
///     const auto selector = config.selector.make();      // Choice<Selectors> selector{"uniform"};
///     const std::vector<ClientId> cohort = selector->select({.sizes = sizes, .count = 800, .seed = seed, .round = r});
///
/// The aggregation weights stay n_m for any selection (as in that paper): selecting by f(n) is not importance sampling.
class Selector {
 public:
  static constexpr std::string_view kKind = "selector";
  virtual ~Selector() = default;

  /// The cohort in drawing order; a client occurs more than once only with replacement. ConfigError when `count`
  /// exceeds `most`. Only `available` returns fewer than `count`, possibly none.
  virtual std::vector<ClientId> select(const SelectionContext& context) const = 0;

  /// The largest possible cohort: by default, all reachable clients with data.
  virtual std::size_t most(const SelectionContext& context) const;
  /// The largest possible cohort in any round: the limit for a configuration. By default `most`.
  virtual std::size_t most_ever(const SelectionContext& context) const { return most(context); }
};

using Selectors = Registry<Selector>;

/// Reachable clients with data, ascending. InternalError for invalid sizes or `reachable` (a negative size, another
/// number of clients).
std::vector<ClientId> eligible_clients(const SelectionContext& context);

/// Checks 1 <= count <= pool for selectors without replacement. `who` describes the pool in the ConfigError: "reachable
/// clients with data".
void check_count(const SelectionContext& context, std::size_t pool, std::string_view who);

}  // namespace chorus::inline selection
