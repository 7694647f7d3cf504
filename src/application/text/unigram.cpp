#include <algorithm>
#include <array>
#include <string>

#include "application/text/subword_model.h"
#include "application/text/trie.h"
#include "application/text/vocabulary.h"

namespace chorus::inline text {

namespace {

class Unigram final : public SubwordModel {
 public:
  explicit Unigram(const ModelSpec& spec)
      : trie_(spec.tokens), scores_(spec.scores), unknown_(spec.unknown.value_or(0)) {
    constexpr double kUnknownPenalty = 10.0;
    double lowest = scores_.empty() ? 0.0 : *std::min_element(scores_.begin(), scores_.end());
    unknown_score_ = lowest - kUnknownPenalty;
    bytes_.fill(Vocabulary::kNone);
    if (!spec.byte_fallback) return;
    const Vocabulary vocabulary(spec.tokens);
    for (unsigned byte = 0; byte < 256; ++byte) {
      bytes_[byte] = vocabulary.find(byte_token(static_cast<unsigned char>(byte)));
    }
  }

  void cut(std::string_view word, std::vector<Piece>& pieces) const override {
    std::array<Node, 64> few;
    std::vector<Node> many;
    Node* best = few.data();
    if (word.size() + 1 > few.size()) {
      many.resize(word.size() + 1);
      best = many.data();
    }
    find_best(word, best);
    const std::size_t before = pieces.size();
    bool fusing = false;
    for (auto end = static_cast<std::uint32_t>(word.size()); end > 0; end = best[end].begin) {
      const Node& node = best[end];
      if (node.id == unknown_ && fusing) {
        pieces.back().begin = node.begin;
      } else {
        pieces.push_back({node.id, node.begin, end});
      }
      fusing = node.id == unknown_;
    }
    std::reverse(pieces.begin() + static_cast<std::ptrdiff_t>(before), pieces.end());
    if (bytes_[0] != Vocabulary::kNone) fall_back(word, pieces, before);
  }

 private:
  struct Node {
    double score = 0;
    std::uint32_t begin = kUnreached;
    std::int32_t id = 0;
  };
  static constexpr std::uint32_t kUnreached = 0xFFFFFFFFu;

  /// best[i]: the last piece of the best segmentation of the first i bytes.
  void find_best(std::string_view word, Node* best) const {
    const std::size_t size = word.size();
    const auto offer = [&](std::size_t begin, std::size_t end, double score, std::int32_t id) {
      Node& node = best[end];
      if (node.begin == kUnreached || score > node.score) node = {score, static_cast<std::uint32_t>(begin), id};
    };
    std::size_t next = 0;
    for (std::size_t begin = 0; begin < size; begin = next) {
      next = begin + 1;
      while (next < size && (static_cast<unsigned char>(word[next]) & 0xC0) == 0x80) ++next;
      const double so_far = best[begin].score;
      bool single = false;
      std::uint32_t node = 0;
      for (std::size_t end = begin; end < size;) {
        node = trie_.step(node, static_cast<unsigned char>(word[end++]));
        if (node == 0) break;
        const std::int32_t id = trie_.id(node);
        if (id == Vocabulary::kNone) continue;
        offer(begin, end, so_far + scores_[static_cast<std::size_t>(id)], id);
        if (end == next) single = true;
      }
      if (!single) offer(begin, next, so_far + unknown_score_, unknown_);
    }
  }

  void fall_back(std::string_view word, std::vector<Piece>& pieces, std::size_t before) const {
    std::vector<Piece> out;
    for (std::size_t i = before; i < pieces.size(); ++i) {
      const Piece& piece = pieces[i];
      if (piece.id != unknown_) {
        out.push_back(piece);
        continue;
      }
      const std::string_view part = word.substr(piece.begin, piece.end - piece.begin);
      const auto known = [&](char c) { return bytes_[static_cast<unsigned char>(c)] != Vocabulary::kNone; };
      if (!std::all_of(part.begin(), part.end(), known)) {
        out.push_back(piece);
        continue;
      }
      for (const char c : part) out.push_back({bytes_[static_cast<unsigned char>(c)], piece.begin, piece.end});
    }
    pieces.resize(before);
    pieces.insert(pieces.end(), out.begin(), out.end());
  }

  Trie trie_;
  std::vector<double> scores_;
  std::int32_t unknown_;
  double unknown_score_ = 0;
  std::array<std::int32_t, 256> bytes_{};
};

}  // namespace

std::unique_ptr<SubwordModel> make_unigram(const ModelSpec& spec) { return std::make_unique<Unigram>(spec); }

}  // namespace chorus::inline text
