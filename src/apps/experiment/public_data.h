#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "application/data/dataset.h"
#include "application/trainer/client_pool.h"
#include "apps/experiment/experiment_config.h"
#include "apps/experiment/task_model.h"

namespace chorus::inline experiment {

/// Examples that no client holds: the public set, which everybody knows, and the query set, of which the server alone
/// knows the labels (`public` of a configuration). They are split off the training data, or read from other files.
///
///     const PublicData shared(config.publics, config.data, data, seed);
///     ClientPoolInput pool{...};
///     pool.public_set = shared.set_for(model, train);
class PublicData {
 public:
  /// Draws with the seed, or reads. ConfigError for shares that leave nothing, DataError for files that have other
  /// examples than the task's. Borrows `data`.
  PublicData(const PublicConfig& config, const DataConfig& reading, const Dataset& data, std::uint64_t seed);

  std::size_t size() const { return pool_.examples.size(); }
  std::size_t queries() const { return query_.examples.size(); }

  /// Of the training examples, those that are neither public nor queries; ascending.
  std::vector<std::uint32_t> left_for_clients() const;

  /// The public set for a network, whose encoding of the training split is `train`.
  PublicSet set_for(const TaskModel& model, const std::shared_ptr<const EncodedDataset>& train) const;
  /// The query set, likewise.
  PublicSet queries_for(const TaskModel& model, const std::shared_ptr<const EncodedDataset>& train) const;
  /// The data that the query examples are of.
  const Dataset& query_data() const { return query_.own ? *query_.own : data_; }

 private:
  struct Part {
    std::shared_ptr<const Dataset> own;        // read from files; null: of the training data
    std::vector<std::uint32_t> examples = {};  // ascending
  };
  PublicSet encoded(const Part& part, const TaskModel& model, const std::shared_ptr<const EncodedDataset>& train) const;

  const Dataset& data_;
  Part pool_, query_;
};

}  // namespace chorus::inline experiment
