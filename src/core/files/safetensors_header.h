#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/tensor/stored_type.h"

namespace chorus {

/// One tensor of a safetensors file. `begin` and `end` count bytes from the first byte after the header.
struct StoredTensor {
  std::string name;
  StoredType type = StoredType::kF32;
  std::vector<int64_t> shape;
  size_t begin = 0, end = 0;
};

/// What stands before the numbers in a safetensors file: 8 bytes of length (little endian), then that many bytes of
/// JSON, `{"__metadata__": {...}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}`, padded
/// with spaces to a multiple of 8. Then the numbers, little endian, row by row, without gaps (docs/formats.md).
struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  ///< in the order of their bytes
  std::map<std::string, std::string> metadata;
  size_t data_begin = 0;  ///< where the numbers start in the file
};

/// The longest header that is read, as in the Python library.
inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;

/// Reads and checks the header of a whole file. Refuses, with a DataError that starts with `where`, all that the Python
/// library refuses (a header longer than the file or 100 MB, bad JSON, sizes that disagree with shapes, overlaps,
/// holes, missing or trailing bytes), and repeated names as well. When it returns, every tensor lies within `file` and
/// has as many bytes as its shape needs.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& where);

/// The bytes to put before the numbers, length and padding included; those of the Python library for the same tensors.
/// The tensors must lie one after the other from 0. Names must be UTF-8, which is the caller's to ensure.
std::string format_safetensors_header(std::span<const StoredTensor> tensors,
                                      const std::map<std::string, std::string>& metadata);

}  // namespace chorus
