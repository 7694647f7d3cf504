#include "core/files/watched_file.h"

#include <gtest/gtest.h>

#include "core/files/files.h"
#include "tests/support.h"

namespace chorus::inline files {
namespace {

TEST(WatchedFile, HasNewsOnceAfterEveryChange) {
  const TemporaryFolder folder;
  WatchedFile file(folder / "list");
  EXPECT_FALSE(file.news(true).has_value());
  write_file(folder / "list", "one");
  EXPECT_FALSE(file.news().has_value()) << "it has looked a moment ago";
  EXPECT_EQ(file.news(true), "one");
  EXPECT_FALSE(file.news(true).has_value());
  write_file(folder / "list", "two");
  std::filesystem::last_write_time(folder / "list", std::filesystem::file_time_type::clock::now());
  EXPECT_EQ(file.news(true), "two");
  std::filesystem::remove(folder / "list");
  EXPECT_FALSE(file.news(true).has_value());
}

}  // namespace
}  // namespace chorus::inline files
