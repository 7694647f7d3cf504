#include "core/files/spill_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support.h"

namespace chorus::inline files {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::span<const std::byte> spill_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string read_place(const SpillFile& spill, const SpillFile::Place& place) {
  std::string into(place.size, '?');
  return spill.read(place, std::as_writable_bytes(std::span(into))) ? into : "(damaged)";
}

TEST(SpillFile, GivesBackEveryPiece) {
  const TemporaryFolder folder;
  SpillFile spill(folder / "deep" / "er" / "spill.bin");
  std::vector<std::pair<std::string, SpillFile::Place>> pieces;
  for (int i = 0; i < 50; ++i) {
    const std::string piece(static_cast<std::size_t>(i * 37 % 101), static_cast<char>('a' + i % 26));
    const auto place = spill.append(spill_bytes(piece));
    ASSERT_TRUE(place.has_value());
    EXPECT_EQ(place->size, piece.size());
    pieces.emplace_back(piece, *place);
  }
  std::uint64_t total = 0;
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    EXPECT_EQ(read_place(spill, piece->second), piece->first);
    total += piece->first.size();
  }
  EXPECT_EQ(spill.size(), total);
  EXPECT_EQ(fs::file_size(folder / "deep" / "er" / "spill.bin"), total);
  EXPECT_TRUE(spill.trouble().empty());
}

TEST(SpillFile, IsPrivateAndGoesWithItsObject) {
  const TemporaryFolder folder;
  const fs::path path = folder / "spill.bin";
  {
    SpillFile spill(path);
    ASSERT_TRUE(spill.append(spill_bytes("text of users")).has_value());
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(SpillFile, ADamagedPieceIsNotGivenBack) {
  const TemporaryFolder folder;
  const fs::path path = folder / "spill.bin";
  SpillFile spill(path);
  const auto first = spill.append(spill_bytes("the first piece")), second = spill.append(spill_bytes("the second"));
  ASSERT_TRUE(first && second);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(4);
  file.put('X');
  file.flush();
  EXPECT_EQ(read_place(spill, *first), "(damaged)");
  EXPECT_EQ(read_place(spill, *second), "the second");
  fs::resize_file(path, spill.size() - 1);
  EXPECT_EQ(read_place(spill, *second), "(damaged)");
  // A place that is not in this file.
  EXPECT_EQ(read_place(spill, {first->offset + 1, first->size, first->print}), "(damaged)");
  EXPECT_EQ(read_place(spill, {1U << 20, 3, {}}), "(damaged)");
}

TEST(SpillFile, AnOldFileIsEmptied) {
  const TemporaryFolder folder;
  std::ofstream(folder / "spill.bin") << "left by a killed process";
  SpillFile spill(folder / "spill.bin");
  EXPECT_EQ(spill.size(), 0U);
  EXPECT_EQ(fs::file_size(folder / "spill.bin"), 0U);
}

TEST(SpillFile, WhereItCannotBeMadeItSaysWhy) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "no folder";
  SpillFile spill(folder / "file" / "spill.bin");
  EXPECT_THAT(spill.trouble(), HasSubstr("spill.bin"));
  EXPECT_FALSE(spill.append(spill_bytes("x")).has_value());
  EXPECT_EQ(spill.size(), 0U);
}

TEST(SpillFile, AFullDiskEndsTheWritingOnly) {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    SpillFile spill(folder / "spill.bin");
    const std::string piece(600, 'p');
    const auto first = spill.append(spill_bytes(piece));
    const bool second = spill.append(spill_bytes(piece)).has_value();
    const bool third = spill.append(spill_bytes("x")).has_value();  // it would fit, but the end is unknown now
    const bool kept = first && read_place(spill, *first) == piece;
    ::_exit(kept && !second && !third && spill.size() == 600 && !spill.trouble().empty() ? 0 : 1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace chorus::inline files
