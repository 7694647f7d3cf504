#include "core/tensor/flat_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace chorus::inline tensor {
namespace {

TEST(FlatMath, SumsOneToEightVectorsAndWhatIsSummedAlready) {
  const std::int64_t count = 200'003;
  std::vector<std::vector<float>> x(kMostTerms + 2, std::vector<float>(count));
  for (std::size_t k = 0; k < x.size(); ++k) {
    for (std::size_t i = 0; i < x[k].size(); ++i) x[k][i] = static_cast<float>((i * (k + 3)) % 101) - 50;
  }
  const std::vector<float> weights{0.5F, 2, -1, 0.25F, 1, 3, -0.5F, 4};
  for (std::size_t terms = 1; terms <= kMostTerms; ++terms) {
    std::vector<Term> list;
    for (std::size_t k = 0; k < terms; ++k) list.push_back({x[k].data(), weights[k]});
    std::vector<float> out(count), in_place = x[8];
    weighted_sum(out.data(), list, {}, count);
    const std::vector<const float*> sums{in_place.data(), x[9].data()};
    weighted_sum(in_place.data(), list, sums, count);
    for (const std::size_t i : {0U, 31U, 65'536U, 200'002U}) {
      float expected = 0;
      for (std::size_t k = 0; k < terms; ++k) expected += weights[k] * x[k][i];
      EXPECT_FLOAT_EQ(out[i], expected) << terms << " " << i;
      EXPECT_FLOAT_EQ(in_place[i], expected + x[8][i] + x[9][i]) << terms << " " << i;
    }
  }
  std::vector<float> sum = x[0];
  add_to(sum.data(), x[1].data(), count);
  EXPECT_EQ(sum[77], x[0][77] + x[1][77]);
}

TEST(FlatMath, SubtractsAndLooks) {
  std::vector<float> x(70'001, 5), y(70'001, 2);
  EXPECT_TRUE(subtract_from(x.data(), y.data(), 70'001));
  EXPECT_EQ(x[70'000], 3);
  y[69'000] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(subtract_from(x.data(), y.data(), 70'001));
  EXPECT_EQ(x[0], 1);
}

TEST(FlatMath, FindsWhatIsNotFiniteWhereverItIs) {
  std::vector<float> x(70'001, 3e38F);
  EXPECT_TRUE(all_finite(x.data(), 70'001));
  for (const std::size_t place : {0U, 31U, 65'535U, 70'000U}) {
    for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
      x[place] = bad;
      EXPECT_FALSE(all_finite(x.data(), 70'001)) << place;
    }
    x[place] = 0;
  }
}

}  // namespace
}  // namespace chorus::inline tensor
