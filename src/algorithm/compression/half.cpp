#include "algorithm/compression/half.h"

#include <fmt/format.h>

#include "algorithm/compression/number_loops.h"
#include "core/tensor/bfloat16.h"

namespace chorus::inline compression {

Numbers HalfFilter::encode(std::span<const float> values, Bytes& out, const FilterContext&) const {
  const std::size_t begin = out.size();
  out.resize(begin + 2 * values.size());
  (type_ == Type::kFloat16 ? to_float16 : to_bfloat16)(values, out.data() + begin);
  return {};
}

Numbers HalfFilter::decode(std::span<const std::byte> bytes, Numbers, std::size_t size) const {
  if (bytes.size() != 2 * size) {
    throw DataError(fmt::format("{} numbers of 16 bits should be {} bytes, not {}", size, 2 * size, bytes.size()));
  }
  Numbers values(size);
  (type_ == Type::kFloat16 ? from_float16 : from_bfloat16)(bytes.data(), values);
  return values;
}

namespace {

const Registration<Filters> kRegisteredFp16{"fp16", "half precision, 16 bits",
                                            [] { return std::make_unique<HalfFilter>(HalfFilter::Type::kFloat16); }};
const Registration<Filters> kRegisteredBf16{"bf16", "bfloat16: half the bits, all of the range",
                                            [] { return std::make_unique<HalfFilter>(HalfFilter::Type::kBfloat16); }};

}  // namespace
}  // namespace chorus::inline compression
