#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/client_id.h"

namespace chorus::inline selection {

/// How much of a federation the selection reached, for a run's summary: Dupuy et al. 2022 (section 5) explain the poor
/// results of f(n) = n by how few distinct devices it reaches. Four bytes per client.
///
///     DeviceCoverage coverage(sizes);
///     for (...) coverage.add(selector->select(context));
///     log(coverage.text());        // "reached 812 of 1,000 devices in 50 rounds; by decile of activity: 1: 70 % ..."
class DeviceCoverage {
 public:
  struct Group {
    std::size_t clients = 0;           ///< with data
    std::size_t reached = 0;           ///< selected at least once
    std::size_t selections = 0;        ///< selections of its clients
    double smallest = 0, largest = 0;  ///< sizes
  };

  /// `groups` of clients with data from least to most active (10: deciles), cut as in core/base/activity.h; with fewer
  /// clients than groups, one each.
  explicit DeviceCoverage(std::span<const double> sizes, std::size_t groups = 10);

  /// Adds the cohort of one round, which may be empty. InternalError for an unknown client.
  void add(std::span<const ClientId> cohort);

  /// Takes in clients that have joined since (a size above 0), each in the group that its size fits.
  void admit(std::span<const double> sizes);

  /// Continues from the `times` and `rounds` of a checkpoint. DataError when the clients differ.
  void restore(std::span<const std::uint32_t> times, std::size_t rounds);

  std::size_t rounds() const { return rounds_; }
  std::size_t clients() const { return clients_; }  ///< with data
  std::size_t distinct() const { return distinct_; }
  std::size_t selections() const { return selections_; }
  double share() const { return clients_ == 0 ? 0 : static_cast<double>(distinct_) / static_cast<double>(clients_); }
  /// Selections of each client.
  std::span<const std::uint32_t> times() const { return times_; }
  const std::vector<Group>& groups() const { return groups_; }  ///< from least to most active
  /// One readable line.
  std::string text() const;

 private:
  std::vector<std::uint32_t> times_;
  std::vector<std::uint16_t> group_of_;
  std::vector<bool> known_;  // counted in a group
  std::vector<Group> groups_;
  std::size_t rounds_ = 0, clients_ = 0, distinct_ = 0, selections_ = 0;
};

}  // namespace chorus::inline selection
