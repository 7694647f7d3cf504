#pragma once

#include <cstdint>
#include <vector>

#include "application/data/partition/population.h"
#include "application/data/partition/sparse_matrix.h"

namespace chorus::inline partition {

struct SvdConfig {
  std::size_t rank = 64;        ///< components
  std::size_t oversample = 10;  ///< extra dimensions of the search space
  std::size_t iterations = 6;   ///< power iterations; more for a slowly decaying spectrum
};

/// The leading part of A = U S V^T.
struct TruncatedSvd {
  FeatureMatrix projected;      ///< A V = U S; min(rank, rows, columns) columns
  std::vector<float> singular;  ///< S, descending
};

/// Randomized subspace iteration (Halko, Martinsson and Tropp, 2011): Q <- orth(A^T (A Q)) from a Gaussian start, then
/// the exact decomposition of A Q. Hand-written: the matrices are a few dozen columns wide, and this component uses no
/// tensor library. Memory: columns * (rank + oversample) floats beside the result. The sign of each column is fixed
/// (its largest entry is positive), so the result depends on A and the seed only.
TruncatedSvd truncated_svd(const SparseMatrix& a, const SvdConfig& config, std::uint64_t seed);

}  // namespace chorus::inline partition
