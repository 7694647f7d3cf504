#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "application/models/ops/packing.h"

namespace chorus {

/// The random part of a forward pass. Each client has a stream of its own, and an element is dropped or kept by a hash
/// of (client's seed, number of the call, place of the element): the same client drops the same elements whether it
/// trains alone or in a cohort, padded or not, on a CPU or a GPU.
///
///     Dropout off;                                  // evaluation
///     Dropout on({seed_of_client_0, seed_of_client_1});
///     x = on.hidden(x, 0.1);
///
/// One object serves one forward pass; it counts its calls, so that each site of the network has its own mask.
class Dropout {
 public:
  Dropout() = default;
  explicit Dropout(std::vector<std::uint64_t> client_seeds) : seeds_(std::move(client_seeds)) {}

  bool active() const { return !seeds_.empty(); }

  /// x [C, rows, width]: row r of a client is its token (or sequence) r.
  at::Tensor hidden(const at::Tensor& x, double probability);
  /// Attention weights [N, heads, queries, keys] of the sequences of `packing`.
  at::Tensor weights(const at::Tensor& x, double probability, const Packing& packing);

 private:
  at::Tensor apply(const at::Tensor& x, double probability, const at::Tensor& row_keys, const at::Tensor& row_starts);

  std::vector<std::uint64_t> seeds_;
  std::uint64_t calls_ = 0;
};

/// The mask itself: [rows, width] floats, 0 where dropped and 1/(1-p) where kept; p is rounded to 1/65536. Element j
/// of a row is decided by 16 bits of hash(row key, row start + j). `row_keys`, `row_starts` are int64 [rows].
at::Tensor keep_mask(const at::Tensor& row_keys, const at::Tensor& row_starts, std::int64_t width, double probability);
/// The same with tensor operations only: for devices that have no kernel of ours, and to test the kernel.
at::Tensor keep_mask_reference(const at::Tensor& row_keys, const at::Tensor& row_starts, std::int64_t width,
                               double probability);

}  // namespace chorus
