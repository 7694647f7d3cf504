#include "application/models/head_labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace chorus::inline models {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(HeadLabels, NumbersAreRowsOfANamedHeadInWhateverOrderDataHasThem) {
  const LabelMatch swapped = match_labels({"NEGATIVE", "POSITIVE"}, {"1", "0"});
  EXPECT_FALSE(swapped.other);
  EXPECT_THAT(swapped.rows, ElementsAre(1, 0));
  const LabelMatch ordered = match_labels({"NEGATIVE", "POSITIVE"}, {"0", "1"});
  EXPECT_FALSE(ordered.other);
  EXPECT_THAT(ordered.rows, IsEmpty());

  const std::vector<std::string> names{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"};
  const LabelMatch sorted = match_labels(names, {"0", "1", "10", "2", "3", "4", "5", "6", "7", "8", "9"});
  EXPECT_FALSE(sorted.other);
  EXPECT_THAT(sorted.rows, ElementsAre(0, 1, 10, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST(HeadLabels, NamesTakeTheRowsOfAHeadWithNumbers) {
  EXPECT_THAT(match_labels({"LABEL_0", "LABEL_1"}, {"no", "yes"}).rows, IsEmpty());
  const LabelMatch moved = match_labels({"2", "0", "1"}, {"no", "maybe", "yes"});
  EXPECT_FALSE(moved.other);
  EXPECT_THAT(moved.rows, ElementsAre(1, 2, 0));
}

TEST(HeadLabels, NumbersOnBothSidesAreNames) {
  EXPECT_THAT(match_labels({"LABEL_0", "LABEL_1"}, {"1", "0"}).rows, ElementsAre(1, 0));
}

TEST(HeadLabels, TheSameListIsTheSameEvenWithANameTwice) {
  const LabelMatch same = match_labels({"a", "b", "a"}, {"a", "b", "a"});
  EXPECT_FALSE(same.other);
  EXPECT_THAT(same.rows, IsEmpty());
}

TEST(HeadLabels, OtherNumbersAreNames) {
  EXPECT_TRUE(match_labels({"NEGATIVE", "POSITIVE"}, {"1", "2"}).other);
  EXPECT_TRUE(match_labels({"NEGATIVE", "POSITIVE"}, {"0", "POSITIVE"}).other);
}

}  // namespace
}  // namespace chorus::inline models
