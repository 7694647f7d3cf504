#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/large_vector.h"
#include "core/base/rng.h"

namespace chorus::inline compression {

/// Widths that fit a byte without a rest.
enum class Bits : int { k1 = 1, k2 = 2, k4 = 4, k8 = 8 };

/// Bytes that `count` codes take.
constexpr std::size_t packed_bytes(std::size_t count, Bits bits) {
  return (count * static_cast<std::size_t>(bits) + 7) / 8;
}

/// Codes of so many bits each, the first in the lowest bits of the first byte. `out` has packed_bytes(codes).
void pack_codes(std::span<const std::uint8_t> codes, Bits bits, std::byte* out);
void unpack_codes(const std::byte* in, Bits bits, std::span<std::uint8_t> codes);

/// Sorted distinct positions below `size` as the gaps between them, each in Rice's code (Golomb 1966, Rice 1979): gap
/// >> b ones, a zero, and the b low bits; b, the first byte, is the one that is best when `count` of `size` are spread
/// evenly. About 1.6 + log2(size / count) bits a position.
void append_positions(std::span<const std::uint32_t> positions, std::size_t size, LargeVector<std::byte>& out);
/// Exactly `count` of them from exactly these bytes. DataError for anything else.
std::vector<std::uint32_t> read_positions(std::span<const std::byte> bytes, std::size_t count, std::size_t size);

/// Uniform in (0, 1), 16 bits each: the middles of 65536 equal pieces. Rounding with them is unbiased but for 2^-17 of
/// a step, and leaves whole numbers below 128 as they are.
void fill_uniform(RandomStream& stream, std::span<float> out);

/// Little-endian numbers at the end of bytes.
void append_raw(LargeVector<std::byte>& out, const void* data, std::size_t size);
template <typename T>
void append_number(LargeVector<std::byte>& out, T value) {
  append_raw(out, &value, sizeof(T));
}

}  // namespace chorus::inline compression
