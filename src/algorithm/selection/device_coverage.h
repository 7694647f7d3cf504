#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/client_id.h"

namespace chorus {

/// How much of a federation the selection reached, for a run's summary: paper 002 explains why f(n) = n does badly by
/// how few distinct devices it reaches (section 5). Four bytes a client.
///
///     DeviceCoverage coverage(sizes);
///     for (...) coverage.add(selector->select(context));
///     log(coverage.text());        // "reached 812 of 1,000 devices in 50 rounds; by decile of activity: 1: 70 % ..."
class DeviceCoverage {
 public:
  struct Group {
    std::size_t clients = 0;           ///< with data
    std::size_t reached = 0;           ///< selected at least once
    std::size_t selections = 0;        ///< how often its clients were selected
    double smallest = 0, largest = 0;  ///< sizes
  };

  /// `groups` of clients with data from least to most active (10: deciles), as core/base/activity.h cuts them; with
  /// fewer clients than groups, one a client.
  explicit DeviceCoverage(std::span<const double> sizes, std::size_t groups = 10);

  /// One round's cohort; an empty one is a round too. InternalError for a client there is not.
  void add(std::span<const ClientId> cohort);

  /// Goes on from what `times` and `rounds` of another one said (a resumed run). DataError when it had other clients.
  void restore(std::span<const std::uint32_t> times, std::size_t rounds);

  std::size_t rounds() const { return rounds_; }
  std::size_t clients() const { return clients_; }  ///< with data
  std::size_t distinct() const { return distinct_; }
  std::size_t selections() const { return selections_; }
  double share() const { return clients_ == 0 ? 0 : static_cast<double>(distinct_) / static_cast<double>(clients_); }
  /// How often each client was selected.
  std::span<const std::uint32_t> times() const { return times_; }
  const std::vector<Group>& groups() const { return groups_; }  ///< from least to most active
  /// One line for a person.
  std::string text() const;

 private:
  std::vector<std::uint32_t> times_;
  std::vector<std::uint16_t> group_of_;
  std::vector<Group> groups_;
  std::size_t rounds_ = 0, clients_ = 0, distinct_ = 0, selections_ = 0;
};

}  // namespace chorus
