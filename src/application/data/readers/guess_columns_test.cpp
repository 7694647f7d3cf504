#include "application/data/readers/guess_columns.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support.h"

namespace chorus::inline readers {
namespace {

TEST(GuessColumns, FindsTextLabelAndClientByTheirValues) {
  const TemporaryFolder folder;
  {
    std::ofstream file(folder / "a.csv");
    file << "Nr;Kommentar;Note;Filiale\n";
    for (int i = 0; i < 60; ++i) {
      file << fmt::format("{};\"Kunde {} war; wie immer, da\";{};Ort {}\n", i, i, i % 2 == 0 ? "gut" : "schlecht",
                          i % 7);
    }
  }
  const auto guess = guess_columns(folder / "a.csv");
  ASSERT_TRUE(guess);
  EXPECT_EQ(guess->text, "Kommentar");
  EXPECT_EQ(guess->label, "Note");
  EXPECT_EQ(guess->client, "Filiale");
  EXPECT_EQ(guess->labels, 2U);
  EXPECT_EQ(guess->clients, 7U);
}

TEST(GuessColumns, SaysNothingWhereThereIsNothingToSay) {
  const TemporaryFolder folder;
  const auto guess = [&](const std::string& text) {
    std::ofstream(folder / "a.csv") << text;
    return guess_columns(folder / "a.csv");
  };
  EXPECT_FALSE(guess(""));
  EXPECT_FALSE(guess("just a line\nand another\n"));
  EXPECT_FALSE(guess("a,b\n1,2\n3,4\n5,6\n7,8\n9,10\n")) << "no sentences";
  EXPECT_FALSE(guess("a,b\nx y z,1\nx y z w,2\nx y,3\nx x,4\n")) << "no column repeats";
  EXPECT_FALSE(guess("a,b\nx y z,1\nx y z w\n")) << "rows of different lengths";
}

}  // namespace
}  // namespace chorus::inline readers
