#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "application/models/ops/layers.h"
#include "application/trainer/client_batches.h"
#include "application/trainer/gpu_values.h"
#include "core/tensor/params.h"

namespace chorus::inline trainer {

/// The rows of the word table that each client uses. A client's texts use a few thousand of the table's tens of
/// thousands of rows; the others have no gradient, and an elementwise optimizer does not change them. So each client
/// trains a table of only the rows it uses, with its token ids renumbered to match: less memory to zero, clip and
/// update, and the same results. The rows come last in the vector, in the order in which batches first use them, so
/// that rows no batch has used yet are left out, too.
///
///     UsedWords used(model.layout(), *model.words(), batches, device);
///     Params params = used.params(base, start, false);      // [C, Pu]
///     batch.ids = used.rename(batch.ids);
///     at::Tensor values = used.spread(params.values(), start);  // [C, P]
class UsedWords {
 public:
  /// Reads the first epoch of each client's batches.
  UsedWords(const Layout& layout, const Embedding& words, std::span<ClientBatches> batches, at::Device device);

  /// Whether rows of this table can be left out: it trains and its rows are aligned.
  static bool possible(const Layout& layout, const Embedding& words);

  /// How many of a client's first elements batches 0 to `batch` can have changed.
  std::int64_t elements_until(std::int64_t batch) const;
  /// Values copied from `start`, [P] for all or [C, P]; with or without a bfloat16 shadow copy.
  Params params(const Params& base, const at::Tensor& start, bool shadow) const;
  /// ids [A, T] of the first A clients, as row indices of their tables.
  at::Tensor rename(const at::Tensor& ids) const;
  /// All values [C, P]; unused rows are those of `start`.
  at::Tensor spread(const at::Tensor& values, const at::Tensor& start) const;
  WordPlaces places() const { return {begin_, size_, width_, rows_, names_}; }

 private:
  std::int64_t begin_, size_, width_;  // the table in the whole vector
  std::shared_ptr<const Layout> layout_;
  std::vector<std::int64_t> counts_;  // rows used per client
  std::vector<std::int64_t> until_;   // rows used by any client by the end of a batch
  at::Tensor rows_;                   // [C, U] row indices; 0 past a client's count
  at::Tensor names_;                  // [C, V] index of a row among the client's rows; 0 if absent
};

}  // namespace chorus::inline trainer
