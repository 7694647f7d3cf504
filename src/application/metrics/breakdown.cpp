#include "application/metrics/breakdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/error.h"

namespace chorus::inline metrics {

Breakdown::Breakdown(std::unique_ptr<Metric> metric, Keep keep) : empty_(std::move(metric)), keep_(keep) {
  check(empty_ != nullptr, "a breakdown needs a metric");
}

Metric& Breakdown::client(const std::string& name) {
  std::unique_ptr<Metric>& metric = clients_[name];
  if (!metric) metric = empty_->fresh(keep_);
  return *metric;
}

void Breakdown::set_activity(const std::string& name, double activity) {
  check(!std::isnan(activity), "a client's activity is not a number");
  activity_[name] = activity;
}

void Breakdown::merge(const Breakdown& other) {
  for (const auto& [name, metric] : other.clients_) client(name).merge(*metric);
  for (const auto& [name, activity] : other.activity_) activity_[name] = activity;
}

GroupScores Breakdown::pool(const std::string& name, const Names& clients,
                            const std::optional<BootstrapOptions>& options) const {
  GroupScores group{name, clients.size(), {}, {}};
  const std::unique_ptr<Metric> pooled = empty_->fresh(options ? Keep::kUnits : Keep::kTotals);
  for (const std::string& member : clients) {
    const Metric& metric = *clients_.at(member);
    if (!options || (clients.size() == 1 && keep_ == Keep::kUnits)) {
      pooled->merge(metric);
    } else {
      pooled->merge_as_unit(metric);
    }
  }
  group.scores = pooled->scores();
  if (options) group.intervals = bootstrap(*pooled, *options);
  return group;
}

GroupScores Breakdown::overall(const std::optional<BootstrapOptions>& options) const {
  Names all;
  for (const auto& [name, metric] : clients_) all.push_back(name);
  return pool("all", all, options);
}

std::vector<GroupScores> Breakdown::by_client(const std::optional<BootstrapOptions>& options) const {
  return by_group([](const std::string& name) { return name; }, options);
}

std::vector<GroupScores> Breakdown::by_decile(const std::optional<BootstrapOptions>& options) const {
  std::vector<std::pair<double, std::string>> order;
  for (const auto& [name, metric] : clients_) {
    const auto known = activity_.find(name);
    order.emplace_back(known != activity_.end() ? known->second : static_cast<double>(metric->examples()), name);
  }
  std::sort(order.begin(), order.end());
  std::vector<GroupScores> deciles;
  constexpr std::size_t kParts = 10;
  for (std::size_t d = 0; d < kParts; ++d) {
    Names members;
    for (std::size_t i = order.size() * d / kParts; i < order.size() * (d + 1) / kParts; ++i)
      members.push_back(order[i].second);
    if (!members.empty()) deciles.push_back(pool(fmt::format("decile {}", d + 1), members, options));
  }
  return deciles;
}

std::vector<GroupScores> Breakdown::by_group(const std::function<std::string(const std::string&)>& group_of,
                                             const std::optional<BootstrapOptions>& options) const {
  std::map<std::string, Names> groups;
  for (const auto& [name, metric] : clients_) groups[group_of(name)].push_back(name);
  std::vector<GroupScores> result;
  for (const auto& [name, members] : groups) result.push_back(pool(name, members, options));
  return result;
}

}  // namespace chorus::inline metrics
