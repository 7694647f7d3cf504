#include "application/parity/parity.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace chorus::inline parity {
namespace {

TEST(Parity, EveryFixtureMatchesHuggingFace) {
  int folders = 0;
  for (const auto& entry : std::filesystem::directory_iterator(CHORUS_SOURCE_DIR "/tests/fixtures/parity")) {
    const ParityReport report = check_parity(entry.path());
    ++folders;
    EXPECT_TRUE(report.passed()) << report.folder << ": " << (report.passed() ? "" : report.misses[0]);
  }
  EXPECT_EQ(folders, 16);
}

}  // namespace
}  // namespace chorus::inline parity
