#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ports/federation.h"
#include "core/ports/workbench.h"

namespace chorus::inline distillation {

/// In which batches the public set is read, epoch after epoch. Server and clients work it out from the same few
/// numbers, so that no rows travel.
///
///     const PublicOrder order = {.rows = bench.public_rows(), .batch_size = 32, .seed = seed, .round = 3};
///     for (std::uint64_t b = 0; b < 3 * order.batches(); ++b) learner->fit(order.batch(b), ...);
struct PublicOrder {
  std::uint64_t rows = 0;
  std::uint64_t batch_size = 32;
  std::uint64_t seed = 0;  ///< below 2^53, so that it travels as a number
  std::uint64_t round = 0;
  /// Batch i of S is rows i, i + S, i + 2S, ... in every epoch, as the published code of FedID has it. Otherwise every
  /// epoch is a new permutation.
  bool strided = false;

  /// Where each row's answers begin (Workbench::public_offsets); empty: one answer per row. Borrowed, and it does not
  /// travel.
  std::span<const std::int64_t> offsets = {};

  std::uint64_t batches() const { return (rows + batch_size - 1) / batch_size; }
  /// The rows of batch `number`, counted over all epochs.
  std::vector<std::uint32_t> batch(std::uint64_t number) const;
  /// All rows in rising order.
  std::vector<std::uint32_t> all() const;
  /// How many answers all rows have, or these.
  std::int64_t answers() const;
  std::int64_t answers(const std::vector<std::uint32_t>& of) const;
  /// The answers for these rows, of the answers [.., N, K] for all of them.
  at::Tensor answers_for(const std::vector<std::uint32_t>& of, const at::Tensor& all_answers) const;
};

/// As numbers of a request, and back. DataError where the public set of the workbench has other rows or answers.
void write_order(const PublicOrder& order, Message& body);
PublicOrder read_order(const Request& request, const Workbench& bench);

}  // namespace chorus::inline distillation
