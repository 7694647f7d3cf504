#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "algorithm/secure/ring_vector.h"

/// Arithmetic of LightSecAgg (So et al. 2022, section 4.1) over the prime field of 2^31 - 1 or 2^61 - 1. Elements lie
/// in the words of a RingVector of 32 or 64 bits.
namespace chorus::inline secure {

/// 2^31 - 1 for words of 32 bits, 2^61 - 1 for words of 64.
std::uint64_t prime_of(unsigned word_bits);
/// Bits that a signed sum may have in the field: 31 or 61.
unsigned capacity_of_field(unsigned word_bits);

/// Uniform elements. Fresh randomness, never the same twice.
void fill_uniform(RingVector& vector);
/// Whether all words are below the prime.
bool in_field(const RingVector& vector);
/// Two's complement integers to elements and back; absolute values below half the prime.
void to_field(RingVector& vector);
void from_field(RingVector& vector);
void add_in_field(RingVector& sum, const RingVector& other);
void subtract_in_field(RingVector& sum, const RingVector& other);
/// sum_i r_i x_i over the first `count` elements, with public r_i drawn from the seed: a checksum, which is linear.
std::uint64_t field_checksum(const RingVector& vector, std::size_t count, std::uint64_t seed);

/// A mask of (U - T) m elements, cut into U - T pieces of m, and T random pieces more are the values at the points
/// 1 .. U of polynomials of degree U - 1. The share of client j is their values at U + 1 + j (Lagrange coding, Yu et
/// al. 2019): any U shares give the mask, any T say nothing about it. The code is linear, so sums of shares are shares
/// of sums.
struct MaskCode {
  std::size_t clients = 0;  ///< N
  std::size_t privacy = 0;  ///< T: shares that say nothing
  std::size_t enough = 0;   ///< U > T: shares that give the mask
  std::size_t length = 0;   ///< elements of a mask

  std::size_t pieces() const { return enough - privacy; }
  std::size_t piece() const { return (length + pieces() - 1) / pieces(); }  ///< m, elements of a share
};

/// The mask and its random pieces: U m uniform elements, of which the first `length` are the mask.
RingVector draw_mask(const MaskCode& code, unsigned word_bits);
/// One share per client, from draw_mask.
std::vector<RingVector> code_shares(const MaskCode& code, const RingVector& pieces);

/// A share, or a sum of shares, and whose it is.
struct CodedShare {
  std::size_t client = 0;  ///< 0 .. N - 1
  const RingVector* share = nullptr;
};
/// The mask, or the sum of masks: `length` elements. Needs U shares of different clients.
RingVector decode_mask(const MaskCode& code, std::span<const CodedShare> shares);

}  // namespace chorus::inline secure
