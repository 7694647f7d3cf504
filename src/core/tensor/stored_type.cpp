#include "core/tensor/stored_type.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace chorus::inline tensor {
namespace {

struct TypeRow {
  std::string_view name;
  size_t bytes;
};
constexpr std::array<TypeRow, 10> kTypes = {{{"BOOL", 1},
                                             {"U8", 1},
                                             {"I8", 1},
                                             {"I16", 2},
                                             {"F16", 2},
                                             {"BF16", 2},
                                             {"I32", 4},
                                             {"F32", 4},
                                             {"F64", 8},
                                             {"I64", 8}}};

}  // namespace

size_t bytes_of(StoredType type) { return kTypes.at(static_cast<size_t>(type)).bytes; }

std::string_view name_of(StoredType type) { return kTypes.at(static_cast<size_t>(type)).name; }

std::optional<StoredType> stored_type(std::string_view name) {
  const auto row = std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeRow& r) { return r.name == name; });
  if (row == kTypes.end()) return std::nullopt;
  return static_cast<StoredType>(row - kTypes.begin());
}

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::optional<int64_t> elements_of(const std::vector<int64_t>& shape, StoredType type) {
  if (shape.size() > 64) return std::nullopt;
  int64_t strides = static_cast<int64_t>(bytes_of(type));
  int64_t elements = 1;
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(strides, std::max<int64_t>(size, 1), &strides)) return std::nullopt;
    elements *= size;  // at most the strides, which did not overflow
  }
  return elements;
}

}  // namespace chorus::inline tensor
