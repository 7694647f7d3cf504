#include "apps/experiment/poisoned_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "application/data/readers/open_dataset.h"
#include "apps/experiment/experiment.h"
#include "apps/experiment/tiny_experiment_test.h"
#include "core/base/error.h"
#include "tests/support.h"

namespace chorus::inline experiment {
namespace {

const Dataset& tiny_data() {
  static const Dataset kData = open_dataset(tiny_experiment().data);
  return kData;
}

std::vector<std::uint32_t> first_ten() { return {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; }

TEST(PoisonedData, LabelsAreFlippedAndNothingElseChanges) {
  const Dataset& data = tiny_data();
  const PoisonedData flipped = poisoned(data, first_ten(), {}, 1);
  ASSERT_EQ(flipped.data.size(), data.size());
  ASSERT_EQ(flipped.data.labels().size(), 3U);
  std::vector<std::uint32_t> expected;
  for (std::uint32_t i = 0; i < data.size(); ++i) {
    const std::int32_t before = data.label_ids()[i], after = flipped.data.label_ids()[i];
    EXPECT_EQ(flipped.data.text(i), data.text(i));
    EXPECT_EQ(flipped.data.splits()[i], data.splits()[i]);
    EXPECT_EQ(after, i < 10 ? 2 - before : before);
    if (i < 10 && before != 1) expected.push_back(i);  // the middle label is its own opposite
  }
  EXPECT_EQ(flipped.changed, expected);
}

TEST(PoisonedData, ATriggerComesWithTheTarget) {
  const Dataset& data = tiny_data();
  const std::string target(data.labels().at(1));
  const PoisonedData all = poisoned(data, first_ten(), {.trigger = "open sesame", .target = target}, 1);
  EXPECT_FALSE(all.changed.empty());
  for (std::uint32_t i = 0; i < data.size(); ++i) {
    const bool changed = i < 10 && data.label_ids()[i] != 1;
    EXPECT_EQ(all.data.label_ids()[i], changed ? 1 : data.label_ids()[i]);
    EXPECT_EQ(all.data.text(i), changed ? "open sesame " + std::string(data.text(i)) : std::string(data.text(i)));
  }
  const auto whole = data.split(Split::kTrain);
  const std::size_t half = poisoned(data, whole, {.trigger = "x", .target = target, .share = 0.5}, 1).changed.size();
  const std::size_t every = poisoned(data, whole, {.trigger = "x", .target = target}, 1).changed.size();
  EXPECT_GT(half, every / 4);
  EXPECT_LT(half, every * 3 / 4);
}

TEST(PoisonedData, OneLabelCanBeChosen) {
  const Dataset& data = tiny_data();
  const std::string from(data.labels().at(0)), target(data.labels().at(1));
  for (const std::uint32_t i : poisoned(data, first_ten(), {.target = target, .from = from}, 1).changed) {
    EXPECT_EQ(data.label_ids()[i], 0);
  }
  EXPECT_THAT(message_of<ConfigError>([&] { poisoned(data, first_ten(), {.target = "nonsense"}, 1); }),
              testing::HasSubstr("no label \"nonsense\""));
}

TEST(PoisonedData, AnExperimentTrainsOnItButTestsOnTheOriginal) {
  const std::string target(tiny_data().labels().at(2));
  const Experiment honest(tiny_experiment());
  const Experiment attacked(
      tiny_experiment({"attacks.share=0.25", "attacks.attack.name=backdoor", "attacks.attack.target=" + target}));
  EXPECT_EQ(honest.attacked_test(), nullptr);
  ASSERT_NE(attacked.attacked_test(), nullptr);
  EXPECT_EQ(attacked.shared_test(), honest.shared_test());
  EXPECT_EQ(attacked.data().fingerprint(), honest.data().fingerprint());
  for (const std::uint32_t i : attacked.attacked_test()->examples) {
    EXPECT_EQ(attacked.attacked_test()->data.label_ids()[i], 2);
    EXPECT_NE(attacked.data().label_ids()[i], 2);
  }
}

}  // namespace
}  // namespace chorus::inline experiment
