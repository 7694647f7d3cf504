#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "application/tasks/task.h"
#include "application/trainer/client_batches.h"
#include "application/trainer/train_client.h"
#include "application/trainer/value_store.h"
#include "core/device/gpu_streams.h"
#include "core/device/worker_threads.h"

namespace chorus::inline trainer {

/// Batch `number` of the first `clients` clients, on the device, and its dropout.
struct Reading {
  std::int64_t clients = 0, number = 0;
  TaskBatch batch;
  Dropout dropout;
};

/// Reads a cohort's batches: collates rows, looks up activations of frozen layers, draws dropout seeds. Every draw
/// depends only on (seed, round, client, number).
///
///     BatchReader reader({trainer, clients, moment}, batches, store);
///     Reading first = reader.take(3, 0);
///     reader.begin(3, 1, BatchReader::When::kBeside);     // while a GPU works on the first
///     Reading second = reader.take(3, 1);
class BatchReader {
 public:
  struct Input {
    const TrainerInput& trainer;
    std::span<const TrainClient> clients;
    TrainMoment moment = {};
    bool read_ahead = false;  ///< whether `begin` does anything; only with a GPU
  };
  /// `batches`, one per client that has rows, and `store` must outlive it.
  BatchReader(const Input& input, std::vector<ClientBatches>& batches, const ValueStore& store);

  Reading take(std::int64_t clients, std::int64_t number);

  /// Reads the batch that `take` asks for next: on another thread, whose GPU work goes to the main stream of `streams`,
  /// if any; or now, while the GPU is still busy.
  enum class When { kBeside, kNow };
  void begin(std::int64_t clients, std::int64_t number, When when, const GpuStreams* streams = nullptr);

  /// The given rows of each client in `cohort`; `purpose` and `number` are part of the keys of random draws.
  Reading read_rows(std::span<const ClientRows> cohort, std::int64_t number, const char* purpose) const;
  /// The same with a batch of these rows that was read before.
  Reading read_rows(std::span<const ClientRows> cohort, TaskBatch batch, std::int64_t number,
                    const char* purpose) const;
  /// Batch `batch` of the first `clients`, likewise; `known`: that batch, if it was read before.
  Reading read_again(std::int64_t clients, std::int64_t batch, std::int64_t number, const char* purpose,
                     const TaskBatch* known = nullptr) const;

 private:
  Reading read(std::int64_t clients, std::int64_t number) const;

  Input input_;
  std::vector<ClientBatches>& batches_;
  const ValueStore& store_;
  std::optional<Reading> read_;  // the batch that `begin` read at once
  Beside<Reading> ahead_;
};

}  // namespace chorus::inline trainer
