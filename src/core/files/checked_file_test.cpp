#include "core/files/checked_file.h"

#include <gtest/gtest.h>

#include "core/files/files.h"
#include "tests/support.h"

namespace chorus::inline files {
namespace {

TEST(CheckedFile, ComesBackOrNotAtAll) {
  const TemporaryFolder folder;
  const auto path = folder / "some" / "where" / "image";
  EXPECT_FALSE(read_checked(path).has_value());
  for (const std::string& bytes : {std::string(), std::string("a\0b\n", 4), std::string(100000, 'x')}) {
    write_checked(path, bytes);
    EXPECT_EQ(read_checked(path), bytes);
  }
  const std::string whole = read_file(path);
  for (const std::size_t at : {std::size_t{0}, std::size_t{31}, std::size_t{32}, whole.size() - 1}) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    write_file(path, changed);
    EXPECT_FALSE(read_checked(path).has_value()) << at;
  }
  for (const std::size_t size : {std::size_t{0}, std::size_t{10}, std::size_t{32}, whole.size() - 1}) {
    write_file(path, whole.substr(0, size));
    EXPECT_FALSE(read_checked(path).has_value()) << size;
  }
}

TEST(CheckedFile, AFolderThatCannotBeWrittenIsNoError) {
  const TemporaryFolder folder;
  write_file(folder / "file", "in the way");
  write_checked(folder / "file" / "image", "bytes");
  EXPECT_FALSE(read_checked(folder / "file" / "image").has_value());
  EXPECT_FALSE(read_checked(folder.path()).has_value()) << "a folder";
}

}  // namespace
}  // namespace chorus::inline files
