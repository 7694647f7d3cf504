#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "algorithm/secure/ring_vector.h"
#include "core/tensor/layout.h"

namespace chorus::inline secure_mean {

/// Rows of word tables in the flat vector of what trains. Only the rows of words in a client's texts change, so a row
/// that a single client has changed shows one of its words in the sum. With `rare_rows: k` a first secure sum counts
/// who changed which row, and clients leave out the rows that fewer than k of them changed.
struct RowTable {
  std::int64_t begin = 0, rows = 0, width = 0;
};

/// Trainable matrices of the embeddings.
std::vector<RowTable> word_tables(const Layout& layout);
std::size_t rows_of(const std::vector<RowTable>& tables);

/// 1 for each row of the update that is not 0 everywhere, table after table.
RingVector touched_rows(const at::Tensor& update, const std::vector<RowTable>& tables, unsigned ring_bits);
/// The update with the rows set to 0 whose byte in `allowed` is 0.
at::Tensor without_rows(const at::Tensor& update, const std::vector<RowTable>& tables, ByteView allowed);

}  // namespace chorus::inline secure_mean
