#include "core/files/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "core/base/error.h"
#include "tests/support.h"

namespace chorus::inline files {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class FilesTest : public ::testing::Test {
 protected:
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  TemporaryFolder temporary_;
  const fs::path& folder_ = temporary_.path();
};

TEST_F(FilesTest, WhatIsWrittenIsRead) {
  const std::string bytes("a\0b\r\n\xff", 6);
  write_file(folder_ / "x", bytes);
  EXPECT_EQ(read_file(folder_ / "x"), bytes);
  write_file(folder_ / "x", "");
  EXPECT_EQ(read_file(folder_ / "x"), "");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(FilesTest, LargeFileIsReadWhole) {
  std::string bytes(200000, 'x');
  bytes[150000] = 'y';
  write_file(folder_ / "x", bytes);
  EXPECT_EQ(read_file(folder_ / "x"), bytes);
  EXPECT_EQ(read_file(folder_ / "x", bytes.size()), bytes);
  EXPECT_THAT(message_of<DataError>([&] { read_file(folder_ / "x", bytes.size() - 1); }), HasSubstr("199999 bytes"));
}

TEST_F(FilesTest, ReadingSaysWhatIsWrong) {
  EXPECT_THAT(message_of<DataError>([&] { read_file(folder_ / "none"); }), HasSubstr("none: no such file"));
  EXPECT_THAT(message_of<DataError>([&] { read_file(folder_); }), HasSubstr("is a folder"));
  EXPECT_THAT(message_of<DataError>([&] { MappedFile file(folder_ / "none"); }), HasSubstr("no such file"));
  EXPECT_THAT(message_of<DataError>([&] { MappedFile file(folder_); }), HasSubstr("is a folder"));
  EXPECT_THAT(message_of<DataError>([&] { MappedFile file("/dev/null"); }), HasSubstr("not a regular file"));
  EXPECT_THAT(message_of<DataError>([&] { read_file("/dev/zero", 1000); }), HasSubstr("1000 bytes"));
}

TEST_F(FilesTest, FilesWithoutASizeAreRead) { EXPECT_THAT(read_file("/proc/self/status"), HasSubstr("Pid:")); }

TEST_F(FilesTest, WithoutCommitTheOldFileStays) {
  write_file(folder_ / "x", "old");
  {
    AtomicFile file(folder_ / "x");
    file.write("new");
    EXPECT_EQ(read_file(folder_ / "x"), "old");
  }
  EXPECT_EQ(read_file(folder_ / "x"), "old");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(FilesTest, AFailedWriteLeavesTheOldFileAndNoRubbish) {
  write_file(folder_ / "x", "old");
  // A file size limit simulates a full disk: write() fails at the same point.
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  rlimit small = limit;
  small.rlim_cur = 1000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string message = message_of<WorldError>([&] { write_file(folder_ / "x", std::string(5000, 'n')); });
  ::setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, before);
  EXPECT_THAT(message, HasSubstr("cannot be written"));
  EXPECT_EQ(read_file(folder_ / "x"), "old");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(FilesTest, AFullDiskIsAnExternalFailure) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  EXPECT_THAT(message_of<WorldError>([&] { write_file("/dev/full", "x"); }), HasSubstr("/dev/full: cannot be written"));
}

TEST_F(FilesTest, WritingSaysWhatIsWrong) {
  EXPECT_THAT(message_of<DataError>([&] { write_file(folder_ / "no" / "x", "x"); }), HasSubstr("does not exist"));
  EXPECT_THAT(message_of<DataError>([&] { write_file(folder_, "x"); }), HasSubstr("is a folder"));
  EXPECT_THAT(message_of<DataError>([&] { write_file("", "x"); }), HasSubstr("not the name of a file"));
}

TEST_F(FilesTest, LinksAreFollowedAndPermissionsKept) {
  write_file(folder_ / "real", "old");
  fs::permissions(folder_ / "real", fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("real", folder_ / "link");
  write_file(folder_ / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(read_file(folder_ / "real"), "new");
  EXPECT_EQ(fs::status(folder_ / "real").permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(FilesTest, WritesWithoutAFolderInTheName) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  write_file("x", "here");
  fs::current_path(before);
  EXPECT_EQ(read_file(folder_ / "x"), "here");
}

TEST_F(FilesTest, MapsAFile) {
  write_file(folder_ / "x", "mapped");
  MappedFile file(folder_ / "x");
  EXPECT_EQ(file.text(), "mapped");
  write_file(folder_ / "x", "other");
  EXPECT_EQ(file.text(), "mapped");  // replaced, not overwritten

  const char* address = file.text().data();
  MappedFile moved(std::move(file));
  EXPECT_EQ(moved.text().data(), address);
  write_file(folder_ / "empty", "");
  EXPECT_EQ(MappedFile(folder_ / "empty").size(), 0U);
}

}  // namespace
}  // namespace chorus::inline files
