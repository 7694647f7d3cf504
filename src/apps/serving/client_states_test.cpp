#include "apps/serving/client_states.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <fstream>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "tests/support.h"

namespace chorus::inline serving {
namespace {

class ClientStatesTest : public testing::Test {
 protected:
  static void store(ClientStates& states, float value, std::uint64_t round = 1) {
    states.shelf().store(0, round, {{"value", torch::tensor(value)}});
  }
  /// NaN: there is no state.
  static float load(ClientStates& states) {
    const ClientState state = states.shelf().load(0);
    return state.empty() ? std::nanf("") : state.at("value").item<float>();
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_.path()), {}));
  }
  TemporaryFolder folder_;
};

TEST_F(ClientStatesTest, ARequestSaysWhichStateItBuildsOn) {
  ClientStates states(folder_.path(), 4);
  ASSERT_TRUE(states.begin(101, 0));
  EXPECT_TRUE(std::isnan(load(states)));
  store(states, 1);
  ASSERT_TRUE(states.begin(102, 0)) << "the reply to 101 never counted";
  EXPECT_TRUE(std::isnan(load(states)));
  store(states, 2);
  ASSERT_TRUE(states.begin(103, 102));
  EXPECT_EQ(load(states), 2);
  ASSERT_TRUE(states.begin(104, 101)) << "an answer that arrived late";
  EXPECT_EQ(load(states), 1);
  EXPECT_FALSE(states.begin(105, 77));
}

TEST_F(ClientStatesTest, AProcessThatDiesAfterItsReplyFindsTheState) {
  {
    ClientStates states(folder_.path(), 4);
    ASSERT_TRUE(states.begin(0xffff'0000'0000'0001, 0));
    store(states, 5);
  }
  std::ofstream(folder_ / "notes.safetensors") << "somebody else's";
  ClientStates states(folder_.path(), 4);
  ASSERT_TRUE(states.begin(2, 0xffff'0000'0000'0001));
  EXPECT_EQ(load(states), 5);
}

TEST_F(ClientStatesTest, KeepsWhatARestartedServerMayGoBackTo) {
  ClientStates states(folder_.path(), 3);
  for (std::uint64_t number = 1; number <= 20; ++number) {
    ASSERT_TRUE(states.begin(number, number - 1));
    store(states, static_cast<float>(number), number);
    EXPECT_LE(files(), 4U);
  }
  EXPECT_TRUE(states.begin(21, 17));
  EXPECT_EQ(load(states), 17);
  EXPECT_FALSE(states.begin(21, 16));
  for (std::uint64_t number = 21; number <= 40; ++number) {  // rounds that are repeated again and again
    ASSERT_TRUE(states.begin(number, 17)) << number;
    store(states, static_cast<float>(number), 18);
    EXPECT_LE(files(), 15U);
  }
  EXPECT_EQ(load(states), 17);
}

// A secure sum with error feedback, or one after an introduction: any reply of a round may be what the server counts.
TEST_F(ClientStatesTest, KeepsRoundsHoweverManyStatesTheyHave) {
  constexpr std::uint64_t kRounds = 6, kAsks = 5, kCounted = 3;
  std::optional<ClientStates> states(std::in_place, folder_.path(), kRounds);
  std::uint64_t number = 0, kept = 0;
  std::vector<std::uint64_t> ends;  // what a checkpoint after each round names
  for (std::uint64_t round = 1; round <= 20; ++round) {
    if (round == 13) states.emplace(folder_.path(), kRounds);  // the client was restarted
    for (std::uint64_t ask = 1; ask <= kAsks; ++ask) {
      ASSERT_TRUE(states->begin(++number, kept)) << "round " << round << ", ask " << ask;
      store(*states, static_cast<float>(number), round);
      if (ask == 1) kept = number;
    }
    kept = number - kAsks + kCounted;  // the later replies were lost
    ends.push_back(kept);
    EXPECT_LE(files(), (kRounds + 1) * kAsks);
  }
  EXPECT_LE(files(), kRounds * 2 + kAsks) << "what no request built on is gone";
  for (std::uint64_t back = 0; back < kRounds; ++back) {
    ASSERT_TRUE(states->begin(++number, ends[ends.size() - 1 - back])) << back << " rounds back";
    EXPECT_EQ(load(*states), static_cast<float>(ends[ends.size() - 1 - back]));
  }
  EXPECT_FALSE(states->begin(++number, ends[ends.size() - 2 - kRounds]));
}

TEST_F(ClientStatesTest, KeepsEveryStateThatIsEmpty) {
  ClientStates states(folder_.path(), 3);
  for (std::uint64_t number = 1; number <= 20; ++number) {
    ASSERT_TRUE(states.begin(number, number - 1));
    states.shelf().store(0, number, {});
  }
  EXPECT_EQ(files(), 20U);
  ClientStates again(folder_.path(), 3);
  EXPECT_TRUE(again.begin(21, 1));
  EXPECT_TRUE(std::isnan(load(again)));
  EXPECT_FALSE(again.begin(21, 22));
}

// Case 29 of the list of hostile inputs.
TEST_F(ClientStatesTest, ATruncatedFileIsAnErrorAndNoState) {
  ClientStates states(folder_.path(), 3);
  ASSERT_TRUE(states.begin(1, 0));
  store(states, 1);
  const auto path = std::filesystem::directory_iterator(folder_.path())->path();
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 2);
  ASSERT_TRUE(states.begin(2, 1));
  EXPECT_THROW((void)load(states), DataError);
}

}  // namespace
}  // namespace chorus::inline serving
