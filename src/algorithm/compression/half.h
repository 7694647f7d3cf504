#pragma once

#include "core/ports/filter.h"

namespace chorus::inline compression {

/// Half precision, rounded to nearest: 2 bytes per element, in row-major order.
///
///     fp16   11 significant bits; saturates at 65504
///     bf16   8 significant bits, the range of float32
class HalfFilter : public Filter {
 public:
  enum class Type { kFloat16, kBfloat16 };
  explicit HalfFilter(Type type) : type_(type) {}

  Stage stage() const override { return Stage::kPack; }
  Numbers encode(std::span<const float> values, Bytes& out, const FilterContext& context) const override;
  Numbers decode(std::span<const std::byte> bytes, Numbers left, std::size_t size) const override;

 private:
  Type type_;
};

}  // namespace chorus::inline compression
