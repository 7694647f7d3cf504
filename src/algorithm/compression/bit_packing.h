#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/large_vector.h"
#include "core/base/rng.h"

namespace chorus::inline compression {

/// Widths that divide a byte.
enum class Bits : int { k1 = 1, k2 = 2, k4 = 4, k8 = 8 };

/// Bytes that `count` codes take.
constexpr std::size_t packed_bytes(std::size_t count, Bits bits) {
  return (count * static_cast<std::size_t>(bits) + 7) / 8;
}

/// Packs codes of `bits` bits each, the first in the lowest bits of the first byte. `out` has packed_bytes(codes).
void pack_codes(std::span<const std::uint8_t> codes, Bits bits, std::byte* out);
void unpack_codes(const std::byte* in, Bits bits, std::span<std::uint8_t> codes);

/// Sorted distinct positions below `size`, stored as gaps in Rice's code (Golomb 1966, Rice 1979): gap >> b ones, a
/// zero, and the b low bits. The first byte is b, the best value when `count` of `size` positions are evenly spread.
/// About 1.6 + log2(size / count) bits per position.
void append_positions(std::span<const std::uint32_t> positions, std::size_t size, LargeVector<std::byte>& out);
/// Reads exactly `count` positions from exactly these bytes. DataError for anything else.
std::vector<std::uint32_t> read_positions(std::span<const std::byte> bytes, std::size_t count, std::size_t size);

/// Uniform in (0, 1), 16 bits each: the midpoints of 65536 equal intervals. Rounding with them is unbiased up to 2^-17
/// of a step and leaves whole numbers below 128 unchanged.
void fill_uniform(RandomStream& stream, std::span<float> out);

/// Appends little-endian values.
void append_raw(LargeVector<std::byte>& out, const void* data, std::size_t size);
template <typename T>
void append_number(LargeVector<std::byte>& out, T value) {
  append_raw(out, &value, sizeof(T));
}

}  // namespace chorus::inline compression
