#include "algorithm/compression/half.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

namespace chorus {
namespace {

at::ScalarType torch_type(HalfFilter::Type type) {
  return type == HalfFilter::Type::kFloat16 ? at::kHalf : at::kBFloat16;
}

}  // namespace

Numbers HalfFilter::encode(std::span<const float> values, Bytes& out, const FilterContext&) const {
  const std::size_t begin = out.size();
  out.resize(begin + 2 * values.size());
  if (values.empty()) return {};
  const auto count = static_cast<std::int64_t>(values.size());
  at::Tensor from = at::from_blob(const_cast<float*>(values.data()), {count}, at::kFloat);
  if (type_ == Type::kFloat16) from = from.clamp(-65504, 65504);
  // Not a view of `out` itself: it may begin at any byte.
  const at::Tensor to = from.to(torch_type(type_));
  std::memcpy(out.data() + begin, to.data_ptr(), 2 * values.size());
  return {};
}

Numbers HalfFilter::decode(std::span<const std::byte> bytes, Numbers, std::size_t size) const {
  if (bytes.size() != 2 * size) {
    throw DataError(fmt::format("{} numbers of 16 bits should be {} bytes, not {}", size, 2 * size, bytes.size()));
  }
  Numbers values(size);
  if (size == 0) return values;
  const auto count = static_cast<std::int64_t>(size);
  const at::Tensor from = at::empty({count}, torch_type(type_));
  std::memcpy(from.data_ptr(), bytes.data(), bytes.size());
  at::from_blob(values.data(), {count}, at::kFloat).copy_(from);
  return values;
}

namespace {

const Registration<Filters> kRegisteredFp16{"fp16", "half precision, 16 bits",
                                            [] { return std::make_unique<HalfFilter>(HalfFilter::Type::kFloat16); }};
const Registration<Filters> kRegisteredBf16{"bf16", "bfloat16: half the bits, all of the range",
                                            [] { return std::make_unique<HalfFilter>(HalfFilter::Type::kBfloat16); }};

}  // namespace
}  // namespace chorus
