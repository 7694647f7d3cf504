#include "algorithm/compression/bit_packing.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/base/error.h"

namespace chorus::inline compression {
namespace {

template <int kBits>
void pack_narrow(std::span<const std::uint8_t> codes, std::byte* out) {
  constexpr std::size_t kEach = 8 / kBits;
  const std::size_t whole = codes.size() / kEach;
  const std::uint8_t* in = codes.data();
  for (std::size_t i = 0; i < whole; ++i, in += kEach) {
    unsigned packed = 0;
    for (std::size_t j = 0; j < kEach; ++j) packed |= static_cast<unsigned>(in[j]) << (kBits * j);
    out[i] = static_cast<std::byte>(packed);
  }
  unsigned rest = 0;
  for (std::size_t i = whole * kEach; i < codes.size(); ++i) {
    rest |= static_cast<unsigned>(codes[i]) << (kBits * (i - whole * kEach));
  }
  if (whole * kEach < codes.size()) out[whole] = static_cast<std::byte>(rest);
}

template <int kBits>
void unpack_narrow(const std::byte* in, std::span<std::uint8_t> codes) {
  constexpr std::size_t kEach = 8 / kBits;
  constexpr unsigned kMask = (1U << kBits) - 1;
  const std::size_t whole = codes.size() / kEach;
  std::uint8_t* out = codes.data();
  for (std::size_t i = 0; i < whole; ++i, out += kEach) {
    const auto packed = static_cast<unsigned>(in[i]);
    for (std::size_t j = 0; j < kEach; ++j) out[j] = static_cast<std::uint8_t>((packed >> (kBits * j)) & kMask);
  }
  for (std::size_t i = whole * kEach; i < codes.size(); ++i) {
    const auto packed = static_cast<unsigned>(in[whole]);
    codes[i] = static_cast<std::uint8_t>((packed >> (kBits * (i - whole * kEach))) & kMask);
  }
}

constexpr unsigned kMostRiceBits = 31;

unsigned rice_bits(std::size_t count, std::size_t size) {
  if (count == 0) return 0;
  // Gaps of evenly spread positions are nearly geometric; the best b is near log2(mean * ln 2).
  const double mean = static_cast<double>(size) / static_cast<double>(count) * 0.693147;
  return mean <= 1 ? 0 : std::min(static_cast<unsigned>(std::log2(mean)), kMostRiceBits);
}

}  // namespace

void pack_codes(std::span<const std::uint8_t> codes, Bits bits, std::byte* out) {
  switch (bits) {
    case Bits::k8:
      if (!codes.empty()) std::memcpy(out, codes.data(), codes.size());
      return;
    case Bits::k4:
      return pack_narrow<4>(codes, out);
    case Bits::k2:
      return pack_narrow<2>(codes, out);
    case Bits::k1:
      return pack_narrow<1>(codes, out);
  }
}

void unpack_codes(const std::byte* in, Bits bits, std::span<std::uint8_t> codes) {
  switch (bits) {
    case Bits::k8:
      if (!codes.empty()) std::memcpy(codes.data(), in, codes.size());
      return;
    case Bits::k4:
      return unpack_narrow<4>(in, codes);
    case Bits::k2:
      return unpack_narrow<2>(in, codes);
    case Bits::k1:
      return unpack_narrow<1>(in, codes);
  }
}

void append_positions(std::span<const std::uint32_t> positions, std::size_t size, LargeVector<std::byte>& out) {
  const unsigned low = rice_bits(positions.size(), size);
  out.push_back(static_cast<std::byte>(low));
  std::uint64_t held = 0;
  unsigned held_bits = 0;
  const auto put = [&](std::uint64_t value, unsigned bits) {
    held |= value << held_bits;
    held_bits += bits;
    for (; held_bits >= 8; held_bits -= 8, held >>= 8) out.push_back(static_cast<std::byte>(held & 0xFF));
  };
  std::uint64_t next = 0;
  for (const std::uint32_t position : positions) {
    const std::uint64_t gap = position - next;
    for (std::uint64_t ones = gap >> low; ones > 0;) {
      const auto some = static_cast<unsigned>(std::min<std::uint64_t>(ones, 32));
      put((std::uint64_t{1} << some) - 1, some);
      ones -= some;
    }
    put(0, 1);
    put(gap & ((std::uint64_t{1} << low) - 1), low);
    next = position + std::uint64_t{1};
  }
  if (held_bits > 0) put(0, 8 - held_bits);
}

std::vector<std::uint32_t> read_positions(std::span<const std::byte> bytes, std::size_t count, std::size_t size) {
  if (bytes.empty()) throw DataError("packed positions are missing");
  const auto low = static_cast<unsigned>(bytes[0]);
  if (low > kMostRiceBits) throw DataError("packed positions begin with a width that does not exist");
  bytes = bytes.subspan(1);
  // Each position takes at least low + 1 bits, so a peer cannot make us reserve more than it sent.
  if (count > bytes.size() * 8 / (low + 1)) throw DataError("packed positions end too early");
  std::vector<std::uint32_t> positions(count);
  std::uint64_t held = 0, next = 0;
  unsigned held_bits = 0;
  std::size_t taken = 0;
  const auto refill = [&] {
    for (; held_bits <= 48 && taken < bytes.size(); held_bits += 8) {
      held |= static_cast<std::uint64_t>(bytes[taken++]) << held_bits;
    }
  };
  for (std::uint32_t& position : positions) {
    std::uint64_t gap = 0;
    for (;;) {
      refill();
      const auto ones = static_cast<unsigned>(std::countr_one(held));
      if (ones < held_bits) {
        gap += ones;
        held >>= ones + 1;  // at most 56
        held_bits -= ones + 1;
        break;
      }
      if (held_bits == 0) throw DataError("packed positions end too early");
      gap += held_bits;
      held = 0;
      held_bits = 0;
    }
    refill();
    if (held_bits < low) throw DataError("packed positions end too early");
    if (gap > (size >> low)) throw DataError("a packed position is beyond the end of the vector");
    gap = (gap << low) | (held & ((std::uint64_t{1} << low) - 1));
    held >>= low;
    held_bits -= low;
    next += gap;
    if (next >= size) throw DataError("a packed position is beyond the end of the vector");
    position = static_cast<std::uint32_t>(next++);
  }
  if (taken < bytes.size() || held_bits >= 8 || held != 0) throw DataError("packed positions are followed by more");
  return positions;
}

void fill_uniform(RandomStream& stream, std::span<float> out) {
  const auto uniform = [](std::uint32_t bits) { return (static_cast<float>(bits) + 0.5F) * 0x1.0p-16F; };
  constexpr std::size_t kPiece = 256;  // two values each
  std::uint32_t bits[kPiece];
  for (std::size_t begin = 0; begin < out.size(); begin += 2 * kPiece) {
    const std::span<float> piece = out.subspan(begin, std::min(2 * kPiece, out.size() - begin));
    const std::size_t pairs = piece.size() / 2, drawn = (piece.size() + 1) / 2;
    stream.fill(std::span(bits).first(drawn));
    for (std::size_t i = 0; i < pairs; ++i) {
      piece[2 * i] = uniform(bits[i] & 0xFFFF);
      piece[2 * i + 1] = uniform(bits[i] >> 16);
    }
    if (drawn > pairs) piece[2 * pairs] = uniform(bits[pairs] & 0xFFFF);
  }
}

void append_raw(LargeVector<std::byte>& out, const void* data, std::size_t size) {
  const auto* begin = static_cast<const std::byte*>(data);
  out.insert(out.end(), begin, begin + size);
}

}  // namespace chorus::inline compression
