#include "core/device/gpu_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"

namespace chorus::inline device {
namespace {

TEST(KernelFamily, HasAVariantForEveryCombinationOfOptions) {
  const KernelFamily family({"x.cu", "text"}, {{"ELEMENT", {"float", "bf16"}}, {"GROUPS", {"1", "2"}}});
  EXPECT_THAT(family.variants(), testing::UnorderedElementsAre("#define ELEMENT float\n#define GROUPS 1\n",
                                                               "#define ELEMENT float\n#define GROUPS 2\n",
                                                               "#define ELEMENT bf16\n#define GROUPS 1\n",
                                                               "#define ELEMENT bf16\n#define GROUPS 2\n"));
  EXPECT_THAT(KernelFamily({"y.cu", "text"}).variants(), testing::ElementsAre(""));
}

TEST(KernelFamily, HasTheVariantsOfTheValuesThatAreGiven) {
  const KernelFamily family({"x.cu", "text"}, {{"ELEMENT", {"float", "bf16"}}, {"GROUPS", {"1", "2"}}});
  EXPECT_THAT(
      family.variants({{"ELEMENT", {"bf16", "float"}}, {"GROUPS", {"2"}}, {"OTHER", {"7"}}}),
      testing::ElementsAre("#define ELEMENT bf16\n#define GROUPS 2\n", "#define ELEMENT float\n#define GROUPS 2\n"));
  EXPECT_THAT(family.variants({{"ELEMENT", {"bf16"}}}), testing::IsEmpty()) << "no value for GROUPS";
  EXPECT_THROW(family.variants({{"ELEMENT", {"double"}}, {"GROUPS", {"1"}}}), InternalError);
  EXPECT_THAT(KernelFamily({"y.cu", "text"}).variants({}), testing::ElementsAre(""));
}

TEST(KernelFamily, RefusesAValueThatNoTestCompiles) {
  const KernelFamily family({"x.cu", "text"}, {{"ELEMENT", {"float", "bf16"}}});
  EXPECT_THROW(family.defines({"double"}), InternalError);
  EXPECT_THROW(family.defines({}), InternalError);
}

TEST(KernelFamily, IsCachedByWhatItIsMadeOf) {
  const KernelFamily family({"x.cu", "text"}), renamed({"y.cu", "text"}), changed({"x.cu", "text "});
  const std::string key = family.cache_key("#define A 1\n", "compute_90");
  EXPECT_EQ(key, renamed.cache_key("#define A 1\n", "compute_90"));
  EXPECT_NE(key, changed.cache_key("#define A 1\n", "compute_90"));
  EXPECT_NE(key, family.cache_key("#define A 2\n", "compute_90"));
  EXPECT_NE(key, family.cache_key("#define A 1\n", "compute_80"));
}

}  // namespace
}  // namespace chorus::inline device
