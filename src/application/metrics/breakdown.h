#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "application/metrics/bootstrap.h"
#include "application/metrics/metric.h"

namespace chorus::inline metrics {

/// Pooled scores of some clients: one metric over all their examples, as in Dupuy et al. 2022.
struct GroupScores {
  std::string name;
  std::size_t clients = 0;
  Scores scores;
  std::map<std::string, Interval> intervals;  ///< resampled over clients (one client: over its examples); empty unless
                                              ///< requested
};

/// One metric per client, and the aggregate views that a federated evaluation needs. The order of reports does not
/// depend on the order in which clients were added.
///
///     Breakdown breakdown(std::make_unique<Perplexity>());
///     breakdown.client("device 17").merge(reply_metric);
///     for (const GroupScores& decile : breakdown.by_decile()) print(decile.name, decile.scores.at("perplexity"));
class Breakdown {
 public:
  /// `metric` gives kind and options; its contents are not used. With Keep::kUnits each client keeps its examples, so
  /// that intervals of single clients are possible.
  explicit Breakdown(std::unique_ptr<Metric> metric, Keep keep = Keep::kTotals);

  /// The client's metric, to add to or merge into; created on first use. Its address is stable.
  Metric& client(const std::string& name);
  /// How active a client is, for `by_decile`. Default: its number of examples here.
  void set_activity(const std::string& name, double activity);
  /// Adds another breakdown of the same metric.
  void merge(const Breakdown& other);

  std::size_t clients() const { return clients_.size(); }

  /// Every client pooled; with options, an interval from resampling clients.
  GroupScores overall(const std::optional<BootstrapOptions>& options = {}) const;
  /// Each client, by name.
  std::vector<GroupScores> by_client(const std::optional<BootstrapOptions>& options = {}) const;
  /// Tenths of the clients from least to most active (Dupuy et al. 2022, section 4: devices by number of utterances).
  /// Of n clients in that order, decile d has those from n d / 10 to n (d + 1) / 10; equal activity is ordered by name.
  /// Fewer than ten clients leave some deciles empty, and these are left out. Names: "decile 1" to "decile 10".
  std::vector<GroupScores> by_decile(const std::optional<BootstrapOptions>& options = {}) const;
  /// Clients put together by any function of their name, sorted by the group's name.
  std::vector<GroupScores> by_group(const std::function<std::string(const std::string&)>& group_of,
                                    const std::optional<BootstrapOptions>& options = {}) const;

 private:
  using Names = std::vector<std::string>;
  GroupScores pool(const std::string& name, const Names& clients, const std::optional<BootstrapOptions>& options) const;

  std::unique_ptr<Metric> empty_;
  Keep keep_;
  std::map<std::string, std::unique_ptr<Metric>> clients_;
  std::map<std::string, double> activity_;
};

}  // namespace chorus::inline metrics
