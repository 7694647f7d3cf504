#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace chorus::inline text {

/// A byte trie with the edges of all nodes in one hash table. Node 0 is the root.
///
///   for (node = 0; (node = trie.step(node, byte)) != 0;) if (trie.id(node) != Trie::kNone) ...
class Trie {
 public:
  static constexpr std::int32_t kNone = -1;
  /// Total bytes of all strings: node index and byte must fit into 32 bits.
  static constexpr std::size_t kMaxBytes = (std::size_t{1} << 24) - 2;

  Trie() : Trie(std::vector<std::string>{}) {}
  /// String i gets id i; empty strings are skipped; of equal strings the last wins.
  explicit Trie(const std::vector<std::string>& tokens) : ids_(1, kNone) {
    std::size_t bytes = 0;
    for (const auto& token : tokens) bytes += token.size();
    check(bytes <= kMaxBytes, "a trie of more than 16 MiB");
    edges_.resize(std::bit_ceil(bytes * 2 + 2));
    mask_ = edges_.size() - 1;
    for (std::size_t id = 0; id < tokens.size(); ++id) {
      std::uint32_t node = 0;
      for (const char c : tokens[id]) {
        Edge& edge = edges_[locate(node, static_cast<unsigned char>(c))];
        if (edge.target == 0) {
          edge = {key(node, static_cast<unsigned char>(c)), static_cast<std::uint32_t>(ids_.size())};
          ids_.push_back(kNone);
        }
        node = edge.target;
      }
      if (node != 0) ids_[node] = static_cast<std::int32_t>(id);
    }
  }
  /// The child node, or 0.
  std::uint32_t step(std::uint32_t node, unsigned char byte) const { return edges_[locate(node, byte)].target; }
  std::int32_t id(std::uint32_t node) const { return ids_[node]; }

 private:
  struct Edge {
    std::uint32_t key = 0;
    std::uint32_t target = 0;
  };
  static std::uint32_t key(std::uint32_t node, unsigned char byte) { return (node << 8) | byte; }
  std::size_t locate(std::uint32_t node, unsigned char byte) const {
    const std::uint32_t k = key(node, byte);
    std::size_t i = (static_cast<std::uint64_t>(k) * 0x9E3779B97F4A7C15ULL >> 28) & mask_;
    while (edges_[i].target != 0 && edges_[i].key != k) i = (i + 1) & mask_;
    return i;
  }
  std::vector<Edge> edges_;
  std::size_t mask_ = 0;
  std::vector<std::int32_t> ids_;
};

}  // namespace chorus::inline text
