#include "application/trainer/client_batches.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/rng.h"

namespace chorus::inline trainer {
namespace {

// The golden ratio's fraction: the fractional parts of its multiples are spread evenly in [0, 1).
constexpr double kGolden = 0.6180339887498949;

// Takes the free index nearest to `wanted`.
std::size_t take_nearest(std::vector<bool>& taken, std::size_t wanted) {
  for (std::size_t distance = 0; distance < taken.size(); ++distance) {
    for (const std::size_t place : {wanted + distance, wanted - distance}) {  // below 0 wraps past the end
      if (place >= taken.size() || taken[place]) continue;
      taken[place] = true;
      return place;
    }
  }
  throw InternalError("every batch has been taken");
}

}  // namespace

ClientBatches::ClientBatches(const ClientBatchesInput& input) : input_(input) {
  check(!input.data.rows.empty(), "a client without data cannot train");
}

std::int64_t ClientBatches::count() const {
  return (static_cast<std::int64_t>(input_.data.rows.size()) + input_.size - 1) / input_.size;
}

std::span<const std::uint32_t> ClientBatches::at(std::int64_t number) {
  const auto place = static_cast<std::size_t>(number), an_epoch = static_cast<std::size_t>(count());
  if (place / an_epoch != epoch_) shuffle(place / an_epoch);
  const Batch& batch = batches_[place % an_epoch];
  return std::span<const std::uint32_t>(rows_).subspan(batch.begin, batch.count);
}

void ClientBatches::shuffle(std::size_t epoch) {
  // Always from the same start, so that the order depends on the epoch only.
  rows_ = input_.data.rows;
  RandomStream({input_.seed, "shuffle", input_.round, input_.client, epoch}).shuffle(std::span(rows_));
  std::vector<Batch> by_length;
  const auto size = static_cast<std::size_t>(input_.size);
  for (std::size_t begin = 0; begin < rows_.size(); begin += size) {
    Batch batch{begin, std::min(size, rows_.size() - begin), 0};
    for (std::size_t i = 0; i < batch.count; ++i) batch.tokens += input_.data.data->length(rows_[begin + i]);
    by_length.push_back(batch);
  }
  std::stable_sort(by_length.begin(), by_length.end(),
                   [](const Batch& a, const Batch& b) { return a.tokens > b.tokens; });
  // All clients are at the same fraction of the way from their longest to their shortest batch, however many batches
  // they have.
  const double start = RandomStream({input_.seed, "batch-order", input_.round, 0, epoch}).uniform();
  std::vector<bool> taken(by_length.size());
  batches_.clear();
  for (std::size_t step = 0; step < by_length.size(); ++step) {
    const double share = std::fmod(start + static_cast<double>(step) * kGolden, 1.0);
    const auto wanted = static_cast<std::size_t>(share * static_cast<double>(by_length.size()));
    batches_.push_back(by_length[take_nearest(taken, wanted)]);
  }
  epoch_ = epoch;
}

std::vector<ClientBatches> batches_of(std::span<const TrainClient> clients, std::int64_t size,
                                      const TrainMoment& moment) {
  std::vector<ClientBatches> result;
  for (const TrainClient& client : clients) {
    if (client.data.rows.empty()) break;
    result.emplace_back(ClientBatchesInput{client.data, client.id, size, moment.seed, moment.round});
  }
  return result;
}

}  // namespace chorus::inline trainer
