#include "core/base/nearest.h"

#include <gtest/gtest.h>

#include <vector>

namespace chorus::inline base {
namespace {

TEST(Nearest, DistanceCountsEdits) {
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("fedavg", "fedvag"), 1U);
  EXPECT_EQ(edit_distance("ca", "abc"), 3U);  // optimal string alignment, not Damerau-Levenshtein (2)
  EXPECT_EQ(edit_distance("Learning-Rate", "learning_rate"), 0U);
}

TEST(Nearest, SuggestsWhatWasMeant) {
  const std::vector<std::string> names = {"fedavg", "fedopt", "fedprox", "label_dirichlet", "iid"};
  EXPECT_EQ(nearest("fedpox", names), "fedprox");
  EXPECT_EQ(nearest("FedAvg", names), "fedavg");
  EXPECT_EQ(nearest("dirichlet", names), "label_dirichlet");
  EXPECT_EQ(nearest("idd", names), "iid");
  EXPECT_EQ(nearest("gpu", std::vector<std::string>{"cpu", "cuda"}), "cuda");
  EXPECT_EQ(nearest("gpu", std::vector<std::string>{"cpu"}), "cpu");
  EXPECT_EQ(nearest("transformer", names), "");
  EXPECT_EQ(nearest("", names), "");
  EXPECT_EQ(nearest(std::string(1000000, 'f'), names), "");
  EXPECT_EQ(did_you_mean("fedprx", names), "; did you mean 'fedprox'?");
  EXPECT_EQ(did_you_mean("zzzzzz", names), "");
}

}  // namespace
}  // namespace chorus::inline base
