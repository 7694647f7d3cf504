#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace chorus::inline tensor {

/// Element types on disk. Free of LibTorch, so that the parsers of untrusted bytes can be fuzzed alone. The order is
/// the one in which the safetensors library sorts tensors when it writes: do not change it.
enum class StoredType : uint8_t { kBool, kU8, kI8, kI16, kF16, kBF16, kI32, kF32, kF64, kI64 };

size_t bytes_of(StoredType type);
std::string_view name_of(StoredType type);  ///< as safetensors spells it: "F32"
std::optional<StoredType> stored_type(std::string_view name);

/// A shape as text: `[2, 3]`.
std::string shape_text(const std::vector<int64_t>& shape);

/// The number of elements, or nothing for a negative dimension, more than 64 dimensions, or sizes whose product (zeros
/// counted as ones, as for strides) does not fit in memory.
std::optional<int64_t> elements_of(const std::vector<int64_t>& shape, StoredType type);

}  // namespace chorus::inline tensor
