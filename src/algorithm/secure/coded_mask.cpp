#include "algorithm/secure/coded_mask.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "core/base/error.h"
#include "core/base/rng.h"

namespace chorus::inline secure {
namespace {

__extension__ using Product = unsigned __int128;

constexpr std::size_t kColumns = 1024;  // elements that are summed at a time, in cache

template <typename Word>
constexpr unsigned kFieldBits = sizeof(Word) == 4 ? 31 : 61;
template <typename Word>
constexpr std::uint64_t kFieldPrime = (std::uint64_t{1} << kFieldBits<Word>)-1;

// Without branches or look-ups on the operands.
std::uint64_t once_less(std::uint64_t x, std::uint64_t prime) {  // x < 2 p
  const std::uint64_t less = x - prime;
  const std::uint64_t borrowed = 0 - (less >> 63);
  return (x & borrowed) | (less & ~borrowed);
}

template <typename Word>
std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  if constexpr (sizeof(Word) == 4) {
    const std::uint64_t product = a * b;
    return once_less((product & kFieldPrime<Word>)+(product >> 31), kFieldPrime<Word>);
  } else {
    const Product product = Product{a} * b;
    return once_less(
        (static_cast<std::uint64_t>(product) & kFieldPrime<Word>)+static_cast<std::uint64_t>(product >> 61),
        kFieldPrime<Word>);
  }
}

template <typename Word>
std::uint64_t minus(std::uint64_t a, std::uint64_t b) {
  return once_less(a + kFieldPrime<Word> - b, kFieldPrime<Word>);
}

template <typename Word>
std::uint64_t inverse_of(std::uint64_t a) {
  std::uint64_t result = 1;
  for (std::uint64_t power = kFieldPrime<Word> - 2; power > 0; power >>= 1) {
    if ((power & 1) == 1) result = times<Word>(result, a);
    a = times<Word>(a, a);
  }
  return result;
}

/// Weights of the values at `from` in the value at a point that is none of them: w_i = prod_{l != i} (x - x_l) / (x_i -
/// x_l).
template <typename Word>
class Interpolation {
 public:
  explicit Interpolation(std::vector<std::uint64_t> from) : from_(std::move(from)) {
    for (std::size_t i = 0; i < from_.size(); ++i) {
      std::uint64_t below = 1;
      for (std::size_t l = 0; l < from_.size(); ++l) {
        if (l != i) below = times<Word>(below, minus<Word>(from_[i], from_[l]));
      }
      scale_.push_back(inverse_of<Word>(below));
    }
  }

  std::vector<std::uint64_t> at(std::uint64_t x) const {
    std::vector<std::uint64_t> weights(from_.size());
    std::uint64_t before = 1;
    for (std::size_t i = 0; i < from_.size(); ++i) {
      weights[i] = times<Word>(before, scale_[i]);
      before = times<Word>(before, minus<Word>(x, from_[i]));
    }
    std::uint64_t after = 1;
    for (std::size_t i = from_.size(); i-- > 0;) {
      weights[i] = times<Word>(weights[i], after);
      after = times<Word>(after, minus<Word>(x, from_[i]));
    }
    return weights;
  }

 private:
  std::vector<std::uint64_t> from_, scale_;
};

/// out = sum_k weights[k] rows[k], each of `out.size()` elements.
template <typename Word>
void combine_rows(std::span<const std::uint64_t> weights, std::span<const Word* const> rows, std::span<Word> out) {
  std::array<std::uint64_t, kColumns> sum;
  for (std::size_t begin = 0; begin < out.size(); begin += kColumns) {
    const std::size_t count = std::min(kColumns, out.size() - begin);
    std::fill_n(sum.begin(), count, 0);
    for (std::size_t k = 0; k < weights.size(); ++k) {
      const Word* const row = rows[k] + begin;
      const std::uint64_t weight = weights[k];
      for (std::size_t i = 0; i < count; ++i) {
        if constexpr (sizeof(Word) == 4) {
          const std::uint64_t product = weight * row[i];  // below 2^62; what is added is below 2^32
          sum[i] += (product & kFieldPrime<Word>)+(product >> 31);
        } else {
          sum[i] = once_less(sum[i] + times<Word>(weight, row[i]), kFieldPrime<Word>);
        }
      }
    }
    for (std::size_t i = 0; i < count; ++i) out[begin + i] = static_cast<Word>(sum[i] % kFieldPrime<Word>);
  }
}

std::vector<std::uint64_t> piece_points(const MaskCode& code) {
  std::vector<std::uint64_t> points;
  for (std::size_t k = 1; k <= code.enough; ++k) points.push_back(k);
  return points;
}

std::uint64_t client_point(const MaskCode& code, std::size_t client) { return code.enough + 1 + client; }

}  // namespace

std::uint64_t prime_of(unsigned word_bits) {
  return word_bits == 32 ? kFieldPrime<std::uint32_t> : kFieldPrime<std::uint64_t>;
}

unsigned capacity_of_field(unsigned word_bits) { return word_bits == 32 ? 31 : 61; }

void fill_uniform(RingVector& vector) {
  vector = RingVector(vector.bits(), vector.size());
  vector.add_mask(random_key(), false);
  vector.words([](auto words) {
    using Word = typename decltype(words)::value_type;
    constexpr auto kMost = static_cast<Word>(kFieldPrime<Word>);
    for (Word& word : words) {
      word &= kMost;
      // Drawn again, so that no element is more likely than another.
      while (word == kMost) {
        fill_random(std::as_writable_bytes(std::span(&word, 1)));
        word &= kMost;
      }
    }
  });
}

bool in_field(const RingVector& vector) {
  return vector.words([](auto words) {
    using Word = typename decltype(words)::value_type;
    return std::all_of(words.begin(), words.end(), [](Word word) { return word < kFieldPrime<Word>; });
  });
}

void to_field(RingVector& vector) {
  vector.words([](auto words) {
    using Word = typename decltype(words)::value_type;
    using Signed = std::make_signed_t<Word>;
    for (Word& word : words) {
      const auto negative = static_cast<Word>(0 - (word >> (8 * sizeof(Word) - 1)));
      word = static_cast<Word>(static_cast<Signed>(word) + static_cast<Signed>(negative & kFieldPrime<Word>));
    }
  });
}

void from_field(RingVector& vector) {
  vector.words([](auto words) {
    using Word = typename decltype(words)::value_type;
    for (Word& word : words) {
      if (word > kFieldPrime<Word> / 2) word = static_cast<Word>(word - kFieldPrime<Word>);
    }
  });
}

void add_in_field(RingVector& sum, const RingVector& other) {
  check(sum.bits() == other.bits() && sum.size() == other.size(), "vectors of two fields or lengths cannot be added");
  sum.words([&](auto words) {
    using Word = typename decltype(words)::value_type;
    other.words([&](auto more) {
      for (std::size_t i = 0; i < words.size(); ++i) {
        words[i] = static_cast<Word>(once_less(std::uint64_t{words[i]} + more[i], kFieldPrime<Word>));
      }
    });
  });
}

void subtract_in_field(RingVector& sum, const RingVector& other) {
  check(sum.bits() == other.bits() && sum.size() == other.size(), "vectors of two fields or lengths cannot be added");
  sum.words([&](auto words) {
    using Word = typename decltype(words)::value_type;
    other.words([&](auto less) {
      for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<Word>(minus<Word>(words[i], less[i]));
    });
  });
}

std::uint64_t field_checksum(const RingVector& vector, std::size_t count, std::uint64_t seed) {
  return vector.words([&](auto words) -> std::uint64_t {
    using Word = typename decltype(words)::value_type;
    RandomStream stream({.seed = seed, .purpose = "checksum in a field"});
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < count; ++i) {
      sum = once_less(sum + times<Word>(stream.next_u32() & 0x3FFFFFFF, words[i]), kFieldPrime<Word>);
    }
    return sum;
  });
}

RingVector draw_mask(const MaskCode& code, unsigned word_bits) {
  check(code.privacy < code.enough && code.enough <= code.clients && code.length > 0, "such a code does not exist");
  RingVector pieces(word_bits, code.enough * code.piece());
  fill_uniform(pieces);
  return pieces;
}

std::vector<RingVector> code_shares(const MaskCode& code, const RingVector& pieces) {
  const std::size_t m = code.piece();
  check(pieces.size() == code.enough * m, "a mask of another code");
  std::vector<RingVector> shares;
  pieces.words([&](auto words) {
    using Word = typename decltype(words)::value_type;
    const Interpolation<Word> interpolation(piece_points(code));
    std::vector<const Word*> rows;
    for (std::size_t k = 0; k < code.enough; ++k) rows.push_back(words.data() + k * m);
    for (std::size_t client = 0; client < code.clients; ++client) {
      const std::vector<std::uint64_t> weights = interpolation.at(client_point(code, client));
      RingVector share(pieces.bits(), m);
      share.words([&](auto out) {
        if constexpr (std::is_same_v<typename decltype(out)::value_type, Word>) combine_rows<Word>(weights, rows, out);
      });
      shares.push_back(std::move(share));
    }
  });
  return shares;
}

RingVector decode_mask(const MaskCode& code, std::span<const CodedShare> shares) {
  check(shares.size() == code.enough, "as many shares as give the mask");
  const std::size_t m = code.piece();
  RingVector mask(shares.front().share->bits(), code.pieces() * m);
  mask.words([&](auto words) {
    using Word = typename decltype(words)::value_type;
    std::vector<std::uint64_t> from;
    std::vector<const Word*> rows;
    for (const CodedShare& share : shares) {
      check(share.client < code.clients && share.share->size() == m && share.share->bits() == mask.bits(),
            "a share of another code");
      from.push_back(client_point(code, share.client));
      share.share->words([&](auto row) {
        if constexpr (std::is_same_v<typename decltype(row)::value_type, Word>) rows.push_back(row.data());
      });
    }
    const Interpolation<Word> interpolation(std::move(from));
    for (std::size_t k = 0; k < code.pieces(); ++k) {
      combine_rows<Word>(interpolation.at(k + 1), rows, words.subspan(k * m, m));
    }
  });
  return mask.part(0, code.length);
}

}  // namespace chorus::inline secure
