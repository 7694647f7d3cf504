#include "core/tensor/stored_type.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "core/base/error.h"
#include "core/tensor/named_tensors.h"
#include "tests/support.h"

namespace chorus::inline tensor {
namespace {

using testing::HasSubstr;

constexpr StoredType kAll[] = {StoredType::kBool, StoredType::kU8,   StoredType::kI8,  StoredType::kI16,
                               StoredType::kF16,  StoredType::kBF16, StoredType::kI32, StoredType::kF32,
                               StoredType::kF64,  StoredType::kI64};

TEST(StoredType, NamesSizesAndLibTorchsTypesAgree) {
  for (const StoredType type : kAll) {
    EXPECT_EQ(stored_type(name_of(type)), type);
    EXPECT_EQ(stored_type(scalar_type(type)), type);
    EXPECT_EQ(bytes_of(type), c10::elementSize(scalar_type(type))) << name_of(type);
  }
  // The order in which the safetensors library sorts by alignment and then by type.
  EXPECT_LT(StoredType::kI16, StoredType::kF16);
  EXPECT_LT(StoredType::kF64, StoredType::kI64);
  EXPECT_FALSE(stored_type("F8_E4M3").has_value());
  EXPECT_FALSE(stored_type("f32").has_value());
  EXPECT_FALSE(stored_type("").has_value());
  EXPECT_FALSE(stored_type(at::kComplexFloat).has_value());
  EXPECT_FALSE(stored_type(at::kQInt8).has_value());
}

TEST(StoredType, ElementsOfShapes) {
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  struct Case {
    std::vector<std::int64_t> shape;
    StoredType type;
    std::optional<std::int64_t> expected;
  };
  const Case cases[] = {{{}, StoredType::kF32, 1},
                        {{2, 3, 4}, StoredType::kF32, 24},
                        {{0}, StoredType::kF64, 0},
                        {{0, 5}, StoredType::kF64, 0},
                        {{-1}, StoredType::kU8, std::nullopt},
                        {{0, -1}, StoredType::kU8, std::nullopt},
                        {{huge}, StoredType::kU8, huge},
                        {{huge}, StoredType::kI16, std::nullopt},
                        {{std::int64_t{1} << 62, 4}, StoredType::kU8, std::nullopt},
                        // A zero does not excuse the others: strides would overflow.
                        {{0, std::int64_t{1} << 62, std::int64_t{1} << 62}, StoredType::kU8, std::nullopt},
                        {{std::int64_t{1} << 62, std::int64_t{1} << 62, 0}, StoredType::kU8, std::nullopt},
                        {std::vector<std::int64_t>(64, 1), StoredType::kU8, 1},
                        {std::vector<std::int64_t>(65, 1), StoredType::kU8, std::nullopt}};
  for (const Case& one : cases) EXPECT_EQ(elements_of(one.shape, one.type), one.expected) << shape_text(one.shape);
}

TEST(StoredType, ShapesAsText) {
  EXPECT_EQ(shape_text({}), "[]");
  EXPECT_EQ(shape_text({7}), "[7]");
  EXPECT_EQ(shape_text({2, -3}), "[2, -3]");
}

/// The bytes of a tensor at an unaligned address.
struct Unaligned {
  explicit Unaligned(const at::Tensor& tensor) : buffer(tensor.nbytes() + 1) {
    std::memcpy(buffer.data() + 1, tensor.data_ptr(), tensor.nbytes());
  }
  std::span<const std::byte> bytes() const { return std::span<const std::byte>(buffer).subspan(1); }
  std::vector<std::byte> buffer;
};

TEST(StoredView, CopiesEveryTypeAlignedOrNot) {
  for (const StoredType type : kAll) {
    const at::Tensor original = at::arange(12).remainder(2).view({3, 4}).to(scalar_type(type));
    const std::span<const std::byte> aligned(static_cast<const std::byte*>(original.data_ptr()), original.nbytes());
    const Unaligned odd(original);
    for (const auto& bytes : {aligned, odd.bytes()}) {
      const at::Tensor copy = copy_of({bytes, type, {3, 4}, {}});
      EXPECT_EQ(copy.scalar_type(), scalar_type(type));
      EXPECT_TRUE(at::equal(copy, original)) << name_of(type);
      EXPECT_NE(copy.data_ptr(), original.data_ptr());
    }
  }
}

TEST(StoredView, FollowsStrides) {
  const at::Tensor original = at::arange(12, at::kFloat).view({3, 4});
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(original.data_ptr()), original.nbytes());
  const Unaligned odd(original);
  for (const auto& from : {bytes, odd.bytes()}) {
    EXPECT_TRUE(at::equal(copy_of({from, StoredType::kF32, {4, 3}, {1, 4}}), original.t()));
    EXPECT_TRUE(at::equal(copy_of({from, StoredType::kF32, {3}, {4}}), original.select(1, 0)));
    EXPECT_TRUE(
        at::equal(copy_of({from, StoredType::kF32, {2, 2}, {0, 1}}), original[0].slice(0, 0, 2).expand({2, 2})));
  }
  EXPECT_EQ(copy_of({{}, StoredType::kF32, {0, 4}, {}}).numel(), 0);
}

TEST(StoredView, ConvertsBetweenFloatingTypesAndRefusesOthers) {
  const at::Tensor original = at::full({2}, 1.5, at::kHalf);
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(original.data_ptr()), original.nbytes());
  const StoredView view{bytes, StoredType::kF16, {2}, {}};
  at::Tensor wide = at::zeros({2, 3}, at::kDouble);
  copy_into(view, wide.select(1, 1));
  EXPECT_TRUE(at::equal(wide, at::tensor({0.0, 1.5, 0.0, 0.0, 1.5, 0.0}, at::kDouble).view({2, 3})));
  EXPECT_THAT(message_of<InternalError>([&] { copy_into(view, at::zeros({2}, at::kLong)); }), HasSubstr("F16"));
  EXPECT_THAT(message_of<InternalError>([&] { copy_into(view, at::zeros({3})); }), HasSubstr("[2]"));
  // Autograd does not notice.
  at::Tensor leaf = at::zeros({2}).set_requires_grad(true);
  copy_into(view, leaf);
  EXPECT_TRUE(leaf.is_leaf());
  EXPECT_EQ(leaf[0].item<float>(), 1.5F);
}

TEST(AllFinite, SeesEveryPlaceAndIsNotFooledByOverflow) {
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    at::Tensor values = at::full({257}, 1, type);
    EXPECT_TRUE(all_finite(values));
    for (const std::int64_t at : {0, 128, 256}) {
      for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
        values[at] = bad;
        EXPECT_FALSE(all_finite(values)) << type << " " << at;
        values[at] = 1;
      }
    }
  }
  // The sums overflow, but the elements are finite.
  EXPECT_TRUE(all_finite(at::full({4}, 3e38, at::kFloat)));
  EXPECT_TRUE(all_finite(at::full({4}, 1.7e308, at::kDouble)));
  // Infinities that cancel.
  EXPECT_FALSE(all_finite(at::tensor({HUGE_VAL, -HUGE_VAL})));
  EXPECT_TRUE(all_finite(at::empty({0})));
  EXPECT_TRUE(all_finite(at::full({2}, 7, at::kLong)));
}

}  // namespace
}  // namespace chorus::inline tensor
