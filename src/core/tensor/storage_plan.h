#pragma once

#include <cstdint>
#include <vector>

namespace chorus::inline tensor {

/// How the parameters of a Layout lie in the flat vectors, and how fast kernels may use them. It changes speed and the
/// order of the elements, nothing else. Parameters are named by their index in the layout.
struct StoragePlan {
  /// `first` and the parameters added right after it, `count` in all and of one shape, may be used as one
  /// (JoinedViews).
  struct Joint {
    int first = 0, count = 0;
  };

  std::vector<bool> matmul_weights = {};  ///< weights of matmuls: first in the vector, written first by a backward pass
  std::vector<bool> head_tables = {};     ///< word tables that a head multiplies with: the same, but not moved
  std::vector<Joint> joints = {};
  int last = -1;  ///< the parameter that lies last, wherever it would be; none: -1

  static void mark(std::vector<bool>& list, int index);
  bool is_matmul_weight(int index) const { return has(matmul_weights, index); }
  bool is_head_table(int index) const { return has(head_tables, index); }

  /// Parameters lie in four groups, each in the order of the layout: weights of matmuls; others; those whose `count` of
  /// elements is not a multiple of 16, so that every other one starts at a multiple of 64 bytes; and the last one.
  static constexpr int kGroups = 4;
  int group(int index, std::int64_t count) const;

 private:
  static bool has(const std::vector<bool>& list, int index) {
    const auto place = static_cast<std::size_t>(index);
    return place < list.size() && list[place];
  }
};

}  // namespace chorus::inline tensor
