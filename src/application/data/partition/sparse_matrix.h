#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace chorus::inline partition {

/// A matrix in CSR format.
struct SparseMatrix {
  std::size_t columns = 0;
  std::vector<std::uint64_t> begin{0};  ///< one entry per row, and the end
  std::vector<std::uint32_t> column;
  std::vector<float> value;

  std::size_t rows() const { return begin.size() - 1; }
};

}  // namespace chorus::inline partition
