#include "application/trainer/batch_reader.h"

#include "core/base/error.h"
#include "core/base/rng.h"

namespace chorus::inline trainer {

BatchReader::BatchReader(const Input& input, std::vector<ClientBatches>& batches, const ValueStore& store)
    : input_(input), batches_(batches), store_(store) {
  input_.read_ahead = input.read_ahead && store.params().device().is_cuda();
}

Reading BatchReader::take(std::int64_t clients, std::int64_t number) {
  if (!read_ && !ahead_.valid()) return read(clients, number);
  Reading reading = read_ ? std::move(*read_) : ahead_.get();
  read_.reset();
  check(reading.clients == clients && reading.number == number, "another batch was read ahead");
  return reading;
}

void BatchReader::begin(std::int64_t clients, std::int64_t number, When when, const GpuStreams* streams) {
  if (!input_.read_ahead) return;
  if (when == When::kNow) {
    read_ = read(clients, number);
    return;
  }
  ahead_ = beside([this, clients, number, streams] {
    const auto guard = streams != nullptr ? streams->enter() : nullptr;
    return read(clients, number);
  });
}

Reading BatchReader::read(std::int64_t clients, std::int64_t number) const {
  return read_again(clients, number, number, "dropout");
}

Reading BatchReader::read_again(std::int64_t clients, std::int64_t batch, std::int64_t number, const char* purpose,
                                const TaskBatch* known) const {
  std::vector<ClientRows> cohort;
  for (std::size_t c = 0; c < static_cast<std::size_t>(clients); ++c) {
    cohort.push_back({input_.clients[c].data.data.get(), batches_[c].at(batch), input_.clients[c].id});
  }
  return known != nullptr ? read_rows(cohort, *known, number, purpose) : read_rows(cohort, number, purpose);
}

Reading BatchReader::read_rows(std::span<const ClientRows> cohort, std::int64_t number, const char* purpose) const {
  const TrainerInput& trainer = input_.trainer;
  const TrainMoment& moment = input_.moment;
  TaskBatch batch = trainer.task.collate(cohort, {.seed = moment.seed,
                                                  .round = moment.round,
                                                  .epoch = static_cast<std::uint64_t>(number),
                                                  .device = store_.params().device()});
  if (trainer.model.head()->fuses_loss) batch.batch.answers = batch.labels;
  store_.adapt(batch.batch);
  if (trainer.cache != nullptr) trainer.cache->fill(trainer.model, store_.params(), batch.batch);
  return read_rows(cohort, std::move(batch), number, purpose);
}

Reading BatchReader::read_rows(std::span<const ClientRows> cohort, TaskBatch batch, std::int64_t number,
                               const char* purpose) const {
  const TrainMoment& moment = input_.moment;
  std::vector<std::uint64_t> seeds;
  for (const ClientRows& client : cohort) {
    const RandomStream draws({moment.seed, purpose, moment.round, client.client, static_cast<std::uint64_t>(number)});
    seeds.push_back(draws.fingerprint());
  }
  Dropout dropout(std::move(seeds));
  dropout.send(store_.params().device());
  return {static_cast<std::int64_t>(cohort.size()), number, std::move(batch), std::move(dropout)};
}

}  // namespace chorus::inline trainer
