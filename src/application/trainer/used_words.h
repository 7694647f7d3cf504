#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "application/models/ops/layers.h"
#include "application/tasks/task.h"
#include "core/params.h"

namespace chorus {

/// The rows of the word table that clients have words for. A client's texts use a few thousand of a table's tens of
/// thousands of rows; the others have no gradient, and an optimiser that changes each number by its own gradient alone
/// leaves them as they are. So a cohort trains with tables of just the rows in use, each client with its own, and the
/// words renamed to match: less memory to fill, clip and step over, and the same results.
///
///     UsedWords used(model.layout(), *model.words(), clients, device);
///     Params params = used.params(base, start);      // [C, Pu]
///     batch.ids = used.rename(batch.ids);
///     at::Tensor values = used.spread(params.values(), start);  // [C, P]
class UsedWords {
 public:
  UsedWords(const Layout& layout, const Embedding& words, std::span<const ClientData* const> clients,
            at::Device device);

  /// Whether the table could be left out of the layout's arithmetic at all: it trains and its rows are aligned.
  static bool possible(const Layout& layout, const Embedding& words);

  /// Values that begin at `start`, [P] for all or [C, P].
  Params params(const Params& base, const at::Tensor& start) const;
  /// ids [A, T] of the first A clients, as rows of their tables.
  at::Tensor rename(const at::Tensor& ids) const;
  /// The values [C, P] of the whole, where rows nobody used are those of `start`.
  at::Tensor spread(const at::Tensor& values, const at::Tensor& start) const;

 private:
  std::int64_t begin_, size_, width_;  // the table in the whole vector
  std::shared_ptr<const Layout> layout_;
  std::vector<std::int64_t> counts_;  // rows that each client uses
  at::Tensor rows_;                   // [C, U] which; beyond a client's count: 0
  at::Tensor names_;                  // [C, V] the place of a row among a client's; 0 when it is not there
};

}  // namespace chorus
