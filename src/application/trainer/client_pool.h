#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "application/data/dataset.h"
#include "application/data/partition/partition.h"
#include "application/metrics/metric.h"
#include "application/peft/tuned_network.h"
#include "application/trainer/cohort_trainer.h"
#include "core/ports/roster.h"
#include "core/ports/workbench.h"

namespace chorus::inline trainer {

/// Stores clients' states between rounds.
struct StateShelf {
  std::function<ClientState(ClientId)> load;
  std::function<void(ClientId, std::uint64_t round, ClientState)> store;
};

/// Examples that all parties know, for comparing and distilling models.
struct PublicSet {
  std::shared_ptr<const EncodedDataset> encoded;  ///< null: there is none
  std::vector<std::uint32_t> examples = {};
  const Dataset* texts = nullptr;  ///< of the examples; with it, language models predict words (shared_words.h)
  std::int64_t words = 1000;       ///< classes of these predictions
};

/// What clients are made from. Everything is borrowed and must outlive the pool.
struct ClientPoolInput {
  TrainerInput trainer;
  const TunedNetwork* network = nullptr;  ///< if clients can be asked about variants
  TrainerConfig config = {};
  const Dataset& data;
  std::shared_ptr<const EncodedDataset> train;
  std::shared_ptr<const EncodedDataset> test = {};  ///< null: clients cannot evaluate
  const ClientLists* train_lists = nullptr;
  const ClientLists* test_lists = nullptr;          ///< null: clients have no test examples of their own
  std::vector<ClientId> ids = {};                   ///< of the lists' clients, ascending; empty: 0, 1, 2, ...
  std::span<const std::uint32_t> shared_test = {};  ///< test examples shared by all clients
  PublicSet public_set = {};
  StateShelf states = {};
  std::uint64_t seed = 0, rounds = 1;
};

/// The clients of one process, as descriptions only: a hundred thousand clients cost no more than their lists of
/// examples. A Workbench is opened for those that work. Thread-safe.
///
///     ClientPool pool({...});
///     std::unique_ptr<Workbench> bench = pool.open(clients, round);
class ClientPool {
 public:
  explicit ClientPool(const ClientPoolInput& input);

  /// The clients with their training examples. A client whose examples encode to no rows fails when asked to train.
  Roster roster() const;
  /// Maximum bytes per additional client of a cohort.
  double client_bytes() const;

  std::unique_ptr<Workbench> open(std::span<const ClientId> clients, std::uint64_t round,
                                  const Variant& variant = {}) const;

 private:
  std::unique_ptr<StepRecorders> recorders_;
  ClientPoolInput input_;
  CohortTrainer trainer_;
  std::shared_ptr<const PublicTexts> public_set_;  // or null
  std::vector<std::int64_t> public_offsets_;       // of its answers; empty: one per row
};

/// A metric's totals as a message, and back (DataError if it is not such a message).
Message to_message(const MetricTotals& totals);
MetricTotals totals_of(const Message& message);

}  // namespace chorus::inline trainer
