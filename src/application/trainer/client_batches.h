#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "application/tasks/encoded_dataset.h"
#include "application/trainer/train_client.h"
#include "core/base/client_id.h"

namespace chorus::inline trainer {

/// Whose batches, and the keys of their random draws.
struct ClientBatchesInput {
  ClientData data;
  ClientId client = 0;
  std::int64_t size = 1;  ///< rows per batch
  std::uint64_t seed = 0, round = 0;
};

/// The batches of one client in the order they are read. Each epoch is a permutation of its rows, cut into batches. All
/// clients share an order by length, so that the batches of one step are about equally long and a cohort wastes little
/// on the tails of shorter rows. Order and rows depend only on client, round and epoch, not on the other clients.
///
///     ClientBatches batches({data, client, 8, seed, round});
///     std::span<const std::uint32_t> rows = batches.at(17);      // the 18th batch, of whichever epoch
class ClientBatches {
 public:
  explicit ClientBatches(const ClientBatchesInput& input);

  std::span<const std::uint32_t> at(std::int64_t number);
  /// Batches per epoch.
  std::int64_t count() const;
  const EncodedDataset& data() const { return *input_.data.data; }

 private:
  struct Batch {
    std::size_t begin, count, tokens;
  };
  void shuffle(std::size_t epoch);

  ClientBatchesInput input_;
  std::vector<std::uint32_t> rows_;
  std::vector<Batch> batches_;
  std::size_t epoch_ = std::numeric_limits<std::size_t>::max();
};

/// One per client that has rows; clients without rows come last.
std::vector<ClientBatches> batches_of(std::span<const TrainClient> clients, std::int64_t size,
                                      const TrainMoment& moment);

}  // namespace chorus::inline trainer
