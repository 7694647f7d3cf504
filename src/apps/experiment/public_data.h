#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "application/data/dataset.h"
#include "application/trainer/client_pool.h"
#include "apps/experiment/experiment_config.h"
#include "apps/experiment/task_model.h"

namespace chorus::inline experiment {

/// Examples that no client holds: the public set, which server and clients know, and the query set, whose labels only
/// the server knows (`public` of a configuration). They are split off the training data, or read from other files.
///
///     const PublicData shared({config.publics, config.data, data, seed});
///     ClientPoolInput pool{...};
///     pool.public_set = shared.set_for(model, train);
///
/// Labels of the public set are dropped when a file is read, unless they are needed: `public.labelled`, or queries that
/// are drawn from it. So texts of another domain may have labels of their own.
class PublicData {
 public:
  struct Input {
    const PublicConfig& config;
    const DataConfig& reading;  ///< of the training data
    const Dataset& data;        ///< borrowed
    std::uint64_t seed = 0;
    bool queries = true;  ///< the algorithm learns labels of the query set (Algorithm::queries)
  };
  /// Draws with the seed, or reads files. ConfigError for shares that leave nothing and for files that are test data;
  /// DataError for files whose examples do not fit the task, and for examples without a label that is needed.
  explicit PublicData(const Input& input);

  std::size_t size() const { return pool_.examples.size(); }
  std::size_t queries() const { return query_.examples.size(); }

  /// Where the public set is from: the setting, and the files if there are any.
  const std::string& where() const { return where_; }
  /// The text of its example i, counted from 0.
  std::string_view text(std::size_t i) const { return (pool_.own ? *pool_.own : data_).text(pool_.examples.at(i)); }

  /// The training examples that are neither public nor queries; ascending.
  std::vector<std::uint32_t> left_for_clients() const;

  /// The public set for a network, whose encoding of the training split is `train`.
  PublicSet set_for(const TaskModel& model, const std::shared_ptr<const EncodedDataset>& train) const;
  /// The query set, likewise.
  PublicSet queries_for(const TaskModel& model, const std::shared_ptr<const EncodedDataset>& train) const;
  /// The dataset of the query examples.
  const Dataset& query_data() const { return query_.own ? *query_.own : data_; }

 private:
  struct Part {
    std::shared_ptr<const Dataset> own;        // read from files; null: part of the training data
    std::vector<std::uint32_t> examples = {};  // ascending
  };
  PublicSet encoded(const Part& part, const TaskModel& model, const std::shared_ptr<const EncodedDataset>& train) const;

  const Dataset& data_;
  std::int64_t words_;
  std::string where_;
  Part pool_, query_;
};

}  // namespace chorus::inline experiment
