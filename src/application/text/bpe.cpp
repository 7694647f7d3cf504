#include <algorithm>
#include <array>
#include <bit>
#include <queue>
#include <string>

#include "application/text/subword_model.h"
#include "application/text/vocabulary.h"
#include "core/base/utf8.h"

namespace chorus::inline text {

namespace {

/// (left id, right id) -> rank and resulting id, open addressing.
class MergeTable {
 public:
  static constexpr std::uint32_t kNoRank = 0xFFFFFFFFu;
  struct Entry {
    std::uint64_t key = kEmpty;
    std::uint32_t rank = kNoRank;
    std::int32_t result = 0;
  };

  explicit MergeTable(const std::vector<ModelSpec::Merge>& merges)
      : entries_(std::bit_ceil(merges.size() * 2 + 2)), mask_(entries_.size() - 1) {
    std::uint32_t rank = 0;
    for (const auto& merge : merges) {
      Entry& entry = entries_[locate(key(merge.left, merge.right))];
      entry = {key(merge.left, merge.right), rank++, merge.result};
    }
  }
  const Entry& find(std::int32_t left, std::int32_t right) const { return entries_[locate(key(left, right))]; }

 private:
  static constexpr std::uint64_t kEmpty = ~0ULL;
  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) | static_cast<std::uint32_t>(right);
  }
  std::size_t locate(std::uint64_t k) const {
    std::size_t i = ((k * 0x9E3779B97F4A7C15ULL) >> 20) & mask_;
    while (entries_[i].key != k && entries_[i].key != kEmpty) i = (i + 1) & mask_;
    return i;
  }
  std::vector<Entry> entries_;
  std::size_t mask_;
};

class Bpe final : public SubwordModel {
 public:
  Bpe(const ModelSpec& spec, bool byte_level)
      : byte_level_(byte_level),
        unknown_(spec.unknown.value_or(Vocabulary::kNone)),
        fuse_unknown_(spec.fuse_unknown),
        ignore_merges_(spec.ignore_merges),
        merges_(spec.merges),
        vocabulary_(byte_level ? raw_tokens(spec) : spec.tokens) {
    for (unsigned byte = 0; byte < 256; ++byte) {
      const char c = static_cast<char>(static_cast<unsigned char>(byte));
      bytes_[byte] = vocabulary_.find(byte_level ? std::string(1, c) : byte_token(static_cast<unsigned char>(byte)));
      if (!byte_level && !spec.byte_fallback) bytes_[byte] = Vocabulary::kNone;
    }
  }

  void cut(std::string_view word, std::vector<Piece>& pieces) const override {
    if (ignore_merges_) {
      const std::int32_t id = vocabulary_.find(word);
      if (id != Vocabulary::kNone) {
        pieces.push_back({id, 0, static_cast<std::uint32_t>(word.size())});
        return;
      }
    }
    const std::size_t before = pieces.size();
    first_symbols(word, pieces);
    if (pieces.size() - before <= kScanLimit) {
      merge_by_scan(pieces, before);
    } else {
      merge_by_queue(pieces, before);
    }
  }

 private:
  static constexpr std::size_t kScanLimit = 48;

  static std::vector<std::string> raw_tokens(const ModelSpec& spec) {
    std::vector<std::string> tokens;
    tokens.reserve(spec.tokens.size());
    for (const auto& token : spec.tokens) tokens.push_back(raw_bytes(token));
    return tokens;
  }

  void first_symbols(std::string_view word, std::vector<Piece>& pieces) const {
    const std::size_t before = pieces.size();
    for (std::size_t at = 0; at < word.size();) {
      const auto from = static_cast<std::uint32_t>(at);
      std::int32_t id;
      if (byte_level_) {
        id = bytes_[static_cast<unsigned char>(word[at++])];
      } else {
        utf8::next(word, at);
        id = vocabulary_.find(word.substr(from, at - from));
        if (id == Vocabulary::kNone && fall_back(word.substr(from, at - from), from, pieces)) continue;
      }
      const auto to = static_cast<std::uint32_t>(at);
      if (id == Vocabulary::kNone) {
        if (unknown_ == Vocabulary::kNone) continue;
        if (fuse_unknown_ && pieces.size() > before && pieces.back().id == unknown_ && pieces.back().end == from) {
          pieces.back().end = to;
          continue;
        }
        id = unknown_;
      }
      pieces.push_back({id, from, to});
    }
  }

  bool fall_back(std::string_view character, std::uint32_t from, std::vector<Piece>& pieces) const {
    const auto known = [&](char c) { return bytes_[static_cast<unsigned char>(c)] != Vocabulary::kNone; };
    if (!std::all_of(character.begin(), character.end(), known)) return false;
    const auto to = from + static_cast<std::uint32_t>(character.size());
    for (const char c : character) pieces.push_back({bytes_[static_cast<unsigned char>(c)], from, to});
    return true;
  }

  void merge_by_scan(std::vector<Piece>& pieces, std::size_t before) const {
    std::array<std::uint32_t, kScanLimit> ranks;
    Piece* p = pieces.data() + before;
    std::size_t n = pieces.size() - before;
    for (std::size_t i = 0; i + 1 < n; ++i) ranks[i] = merges_.find(p[i].id, p[i + 1].id).rank;
    while (n > 1) {
      std::size_t best = 0;
      for (std::size_t i = 1; i + 1 < n; ++i) {
        if (ranks[i] < ranks[best]) best = i;
      }
      if (ranks[best] == MergeTable::kNoRank) break;
      p[best] = {merges_.find(p[best].id, p[best + 1].id).result, p[best].begin, p[best + 1].end};
      std::copy(p + best + 2, p + n, p + best + 1);
      std::copy(ranks.begin() + static_cast<std::ptrdiff_t>(std::min(best + 2, n - 1)),
                ranks.begin() + static_cast<std::ptrdiff_t>(n - 1),
                ranks.begin() + static_cast<std::ptrdiff_t>(best + 1));
      --n;
      if (best > 0) ranks[best - 1] = merges_.find(p[best - 1].id, p[best].id).rank;
      if (best + 1 < n) ranks[best] = merges_.find(p[best].id, p[best + 1].id).rank;
    }
    pieces.resize(before + n);
  }

  /// The same result in n log n, for words of any length: a heap of candidate merges over a linked list.
  void merge_by_queue(std::vector<Piece>& pieces, std::size_t before) const {
    struct Candidate {
      std::uint32_t rank;
      std::uint32_t at;
      std::int32_t result;
      bool operator>(const Candidate& other) const { return rank != other.rank ? rank > other.rank : at > other.at; }
    };
    const auto n = static_cast<std::uint32_t>(pieces.size() - before);
    Piece* p = pieces.data() + before;
    std::vector<std::uint32_t> next(n);
    std::vector<std::uint32_t> previous(n);
    std::vector<bool> gone(n, false);
    std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
    const auto offer = [&](std::uint32_t at) {
      if (next[at] == n) return;
      const auto& entry = merges_.find(p[at].id, p[next[at]].id);
      if (entry.rank != MergeTable::kNoRank) queue.push({entry.rank, at, entry.result});
    };
    for (std::uint32_t i = 0; i < n; ++i) {
      next[i] = i + 1;
      previous[i] = i - 1;
    }
    for (std::uint32_t i = 0; i < n; ++i) offer(i);
    while (!queue.empty()) {
      const Candidate top = queue.top();
      queue.pop();
      if (gone[top.at] || next[top.at] == n) continue;
      const std::uint32_t right = next[top.at];
      const auto& entry = merges_.find(p[top.at].id, p[right].id);
      if (entry.rank != top.rank || entry.result != top.result) continue;
      p[top.at] = {top.result, p[top.at].begin, p[right].end};
      gone[right] = true;
      next[top.at] = next[right];
      if (next[right] != n) previous[next[right]] = top.at;
      offer(top.at);
      if (top.at > 0) offer(previous[top.at]);
    }
    std::size_t kept = before;
    for (std::uint32_t i = 0; i < n; ++i) {
      if (!gone[i]) pieces[kept++] = p[i];
    }
    pieces.resize(kept);
  }

  bool byte_level_;
  std::int32_t unknown_;
  bool fuse_unknown_;
  bool ignore_merges_;
  MergeTable merges_;
  Vocabulary vocabulary_;
  std::array<std::int32_t, 256> bytes_{};
};

}  // namespace

std::unique_ptr<SubwordModel> make_bpe(const ModelSpec& spec, bool byte_level) {
  return std::make_unique<Bpe>(spec, byte_level);
}

}  // namespace chorus::inline text
