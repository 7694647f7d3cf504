#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace chorus::inline secure_graph {

/// Which clients share masks and keys: the Harary graph H(k, n), a ring over a permutation of the clients in which each
/// is linked to the k / 2 nearest on each side. With k >= n - 1 it is the complete graph. Symmetric, without
/// self-loops.
class NeighbourGraph {
 public:
  /// `order`: the client at each index of the ring, a permutation of 0 .. n - 1. k must be even or at least n - 1.
  NeighbourGraph(std::vector<std::uint32_t> order, std::size_t k);

  std::size_t size() const { return order_.size(); }
  /// Ascending.
  std::vector<std::uint32_t> neighbours(std::uint32_t client) const;
  bool adjacent(std::uint32_t a, std::uint32_t b) const;

 private:
  std::vector<std::uint32_t> order_, place_;
  std::size_t half_;  // neighbours on each side; 0: complete
};

}  // namespace chorus::inline secure_graph
