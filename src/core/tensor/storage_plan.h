#pragma once

#include <cstdint>
#include <vector>

namespace chorus::inline tensor {

/// The order of a Layout's parameters in the flat vectors, and how kernels may use them. It affects speed and
/// the order of elements only. Parameters are named by their index in the layout.
struct StoragePlan {
  /// `first` and the parameters added right after it, `count` in all and of one shape, may be used as one
  /// (JoinedViews).
  struct Joint {
    int first = 0, count = 0;
  };

  std::vector<bool> matmul_weights = {};  ///< first in the vector; a backward pass overwrites their gradients
  std::vector<bool> head_tables = {};     ///< word tables that a head multiplies with: likewise, but not moved
  std::vector<Joint> joints = {};
  int last = -1;  ///< the parameter that comes last; -1: none

  static void mark(std::vector<bool>& list, int index);
  bool is_matmul_weight(int index) const { return has(matmul_weights, index); }
  bool is_head_table(int index) const { return has(head_tables, index); }

  /// Four groups, each in the order of the layout: matmul weights; others; parameters whose `count` is not a multiple
  /// of 16, so that all others start at a multiple of 64 bytes; and the last one.
  static constexpr int kGroups = 4;
  int group(int index, std::int64_t count) const;

 private:
  static bool has(const std::vector<bool>& list, int index) {
    const auto place = static_cast<std::size_t>(index);
    return place < list.size() && list[place];
  }
};

}  // namespace chorus::inline tensor
