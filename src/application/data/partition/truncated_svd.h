#pragma once

#include <cstdint>
#include <vector>

#include "application/data/partition/population.h"
#include "application/data/partition/sparse_matrix.h"

namespace chorus {

struct SvdConfig {
  std::size_t rank = 64;        ///< directions kept
  std::size_t oversample = 10;  ///< extra directions of the search space
  std::size_t iterations = 6;   ///< power iterations; more for a slowly falling spectrum
};

/// The leading part of A = U S V^T.
struct TruncatedSvd {
  FeatureMatrix projected;      ///< A V = U S, one row a row of A; min(rank, rows, columns) columns
  std::vector<float> singular;  ///< S, falling
};

/// Randomised subspace iteration (Halko, Martinsson and Tropp, 2011): Q <- orth(A^T (A Q)) from a Gaussian start, then
/// the exact decomposition of A Q. Written by hand: the matrices are a few dozen columns wide, and this component uses
/// no tensor library. Memory: columns * (rank + oversample) floats beside the result. Each column's sign is fixed (its
/// largest entry is positive), so the result depends on A and the seed only.
TruncatedSvd truncated_svd(const SparseMatrix& a, const SvdConfig& config, std::uint64_t seed);

}  // namespace chorus
