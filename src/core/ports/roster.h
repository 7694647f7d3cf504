#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/client_id.h"

namespace chorus::inline ports {

/// What the server knows about a client that can be asked.
struct RosterEntry {
  ClientId id = 0;                      ///< the same for the whole run, also across restarts
  std::string name = {};                ///< for people and certificates; empty: "client <id>"
  std::optional<double> examples = {};  ///< training examples; nullopt: not stated
  std::string model = {};               ///< key of the network it trains; empty: the run's only one
  bool alive = true;                    ///< it can be reached now
  std::optional<double> capacity = {};  ///< share of the network that the device can train; nullopt: all
};

/// The members of a federation, sorted by id. Ids may have gaps: members leave and others join.
///
///     for (const RosterEntry& client : federation.roster().members()) ...
class Roster {
 public:
  Roster() = default;
  /// InternalError for an id that occurs twice or an example count that is negative or not finite.
  explicit Roster(std::vector<RosterEntry> members);
  /// Simulated clients: ids 0 to n - 1, all alive.
  static Roster of_sizes(std::span<const double> examples);

  std::span<const RosterEntry> members() const { return members_; }
  std::size_t size() const { return members_.size(); }
  /// Null if there is no such client.
  const RosterEntry* find(ClientId id) const;

  /// Examples by id, for selection and for the order in which a cohort is asked: 0 for clients that have left, have no
  /// data or never existed, 1 for those that do not state it.
  std::span<const double> sizes() const { return sizes_; }
  double size_of(ClientId id) const { return id < sizes_.size() ? sizes_[id] : 0; }
  /// Clients that can be asked to train.
  std::size_t trainable() const;

 private:
  std::vector<RosterEntry> members_;
  std::vector<double> sizes_;
};

}  // namespace chorus::inline ports
