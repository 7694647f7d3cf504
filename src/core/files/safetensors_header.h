#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/tensor/stored_type.h"

namespace chorus::inline files {

/// One tensor of a safetensors file. `begin` and `end` are byte offsets after the header.
struct StoredTensor {
  std::string name;
  StoredType type = StoredType::kF32;
  std::vector<int64_t> shape;
  size_t begin = 0, end = 0;
};

/// The header of a safetensors file: 8 bytes of length (little endian), then that many bytes of JSON, `{"__metadata__":
/// {...}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}`, padded with spaces to a multiple
/// of 8. The elements follow, little endian, row-major, without gaps (docs/reference/formats.md).
struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  ///< in file order
  std::map<std::string, std::string> metadata;
  size_t data_begin = 0;  ///< file offset of the elements
};

/// The longest accepted header, as in the Python library.
inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;

/// Parses and checks the header of a whole file. A DataError starting with `where` for everything that the Python
/// library rejects (a header longer than the file or 100 MB, bad JSON, sizes that disagree with shapes, overlaps, gaps,
/// missing or trailing bytes), and for repeated names. On return every tensor lies within `file` and has the bytes that
/// its shape needs.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& where);

/// The header's bytes, length and padding included, as the Python library writes them. The tensors must be contiguous
/// from 0, and names must be UTF-8.
std::string format_safetensors_header(std::span<const StoredTensor> tensors,
                                      const std::map<std::string, std::string>& metadata);

}  // namespace chorus::inline files
