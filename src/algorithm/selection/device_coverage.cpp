#include "algorithm/selection/device_coverage.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/activity.h"
#include "core/base/error.h"

namespace chorus::inline selection {

DeviceCoverage::DeviceCoverage(std::span<const double> sizes, std::size_t groups)
    : times_(sizes.size(), 0), group_of_(sizes.size(), 0), known_(sizes.size(), false) {
  check(groups > 0 && groups <= 65535, "coverage needs 1 to 65,535 groups");
  const std::vector<ClientId> order = by_activity(sizes);
  clients_ = order.size();
  groups_.resize(std::min(groups, clients_));
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const std::size_t begin = group_begin(clients_, g, groups_.size());
    const std::size_t end = group_begin(clients_, g + 1, groups_.size());
    groups_[g] = {.clients = end - begin, .smallest = sizes[order[begin]], .largest = sizes[order[end - 1]]};
    for (std::size_t i = begin; i < end; ++i) {
      group_of_[order[i]] = static_cast<std::uint16_t>(g);
      known_[order[i]] = true;
    }
  }
}

void DeviceCoverage::admit(std::span<const double> sizes) {
  if (sizes.size() > times_.size()) {
    times_.resize(sizes.size(), 0);
    group_of_.resize(sizes.size(), 0);
    known_.resize(sizes.size(), false);
  }
  for (std::size_t client = 0; client < sizes.size(); ++client) {
    if (sizes[client] <= 0 || known_[client]) continue;
    known_[client] = true;
    if (groups_.empty()) groups_.push_back({.smallest = sizes[client], .largest = sizes[client]});
    std::size_t g = 0;
    while (g + 1 < groups_.size() && groups_[g + 1].smallest <= sizes[client]) ++g;
    if (times_[client] == 0) group_of_[client] = static_cast<std::uint16_t>(g);
    Group& group = groups_[group_of_[client]];
    ++group.clients;
    group.smallest = std::min(group.smallest, sizes[client]);
    group.largest = std::max(group.largest, sizes[client]);
    ++clients_;
  }
}

void DeviceCoverage::add(std::span<const ClientId> cohort) {
  ++rounds_;
  for (const ClientId client : cohort) {
    check(client < times_.size() && !groups_.empty(), "a selected client is not in the federation");
    Group& group = groups_[group_of_[client]];
    if (times_[client]++ == 0) {
      ++distinct_;
      ++group.reached;
    }
    ++group.selections;
    ++selections_;
  }
}

void DeviceCoverage::restore(std::span<const std::uint32_t> times, std::size_t rounds) {
  if (times.size() != times_.size()) throw DataError("the checkpoint belongs to a federation with other clients");
  check(rounds_ == 0, "coverage must be restored before the first round");
  std::vector<ClientId> cohort;
  for (std::size_t client = 0; client < times.size(); ++client) {
    cohort.insert(cohort.end(), times[client], static_cast<ClientId>(client));
  }
  add(cohort);
  rounds_ = rounds;
}

std::string DeviceCoverage::text() const {
  std::string line =
      fmt::format("reached {} of {} devices ({:.1f} %) in {} rounds", distinct_, clients_, 100 * share(), rounds_);
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    line += fmt::format("{}{:.0f} %", g == 0 ? "; from least to most active: " : ", ",
                        100 * static_cast<double>(groups_[g].reached) / static_cast<double>(groups_[g].clients));
  }
  return line;
}

}  // namespace chorus::inline selection
