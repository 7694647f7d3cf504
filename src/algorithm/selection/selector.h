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

namespace chorus {

/// What a selector may know in one round.
struct SelectionContext {
  std::span<const double> sizes;      ///< training examples of every client of the federation; 0: never selected
  std::size_t count = 0;              ///< how many to select this round, at least 1
  std::uint64_t seed = 0, round = 0;  ///< all draws come from RandomStream keys of these
  /// The current losses of some clients, in the order asked (power_of_choice asks for it); may be empty.
  std::function<std::vector<double>(std::span<const ClientId>)> losses{};
  /// The emulated clock at the round's beginning, in seconds, where the run keeps one (`available` with a trace in
  /// seconds asks for it).
  std::optional<double> seconds{};
  /// Who can be reached now: one entry a client, 0 for those who cannot. Empty: everyone.
  std::span<const std::uint8_t> reachable{};
};

/// Chooses the clients of a round (paper 002, section 3, "Device Selection"). Stateless and safe to use from many
/// threads: the same context gives the same cohort, so a resumed run needs nothing from it.
///
///     const auto selector = config.selector.make();      // Choice<Selectors> selector{"uniform"};
///     const std::vector<ClientId> cohort = selector->select({.sizes = sizes, .count = 800, .seed = seed, .round = r});
///
/// The aggregation weights stay n_m whatever the selection (paper 002): selecting by f(n) is not importance sampling.
class Selector {
 public:
  static constexpr std::string_view kKind = "selector";
  virtual ~Selector() = default;

  /// The cohort, in the order it was drawn; a client comes up more than once only when drawn with replacement.
  /// ConfigError when `count` is more than `most`. Only `available` returns fewer than `count`, possibly none.
  virtual std::vector<ClientId> select(const SelectionContext& context) const = 0;

  /// How many it could select: by default, the clients with data that can be reached.
  virtual std::size_t most(const SelectionContext& context) const;
  /// How many it could select at its best moment: what a configuration may ask for. By default `most`.
  virtual std::size_t most_ever(const SelectionContext& context) const { return most(context); }
};

using Selectors = Registry<Selector>;

/// The clients with data that can be reached, ascending. InternalError when sizes or `reachable` are not what they
/// should be (a negative size, another number of clients).
std::vector<ClientId> eligible_clients(const SelectionContext& context);

/// What all selectors that draw without replacement check first: 1 <= count <= pool. `who` describes the pool in the
/// ConfigError: "clients with data that can be reached".
void check_count(const SelectionContext& context, std::size_t pool, std::string_view who);

}  // namespace chorus
