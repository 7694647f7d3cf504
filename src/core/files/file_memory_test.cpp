#include "core/files/file_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

namespace chorus::inline files {
namespace {

std::size_t resident(std::string_view bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::size_t kibibytes = 0;
  // Of the mapping in this process, not of the file's pages in the system's cache (which mincore would count).
  FILE* maps = ::fopen("/proc/self/smaps", "r");
  char line[512], begin[32];
  std::snprintf(begin, sizeof begin, "%lx-", reinterpret_cast<unsigned long>(bytes.data()));
  for (bool here = false; std::fgets(line, sizeof line, maps) != nullptr;) {
    if (std::string_view(line).starts_with(begin)) here = true;
    if (here && std::sscanf(line, "Rss: %zu", &kibibytes) == 1) break;
  }
  std::fclose(maps);
  return kibibytes * 1024 / page;
}

TEST(FileMemory, HoldsWhatWasAppendedOutsideThisProcess) {
  std::string trouble;
  const std::size_t size = 1U << 20U;
  const auto memory = FileMemory::create(testing::TempDir(), size, trouble);
  if (!memory) GTEST_SKIP() << trouble;
  for (int i = 0; i < 16; ++i) ASSERT_TRUE(memory->append(std::string(size / 16, static_cast<char>('a' + i))));
  EXPECT_FALSE(memory->append("x"));
  EXPECT_EQ(resident(memory->bytes()), 0U);
  EXPECT_EQ(memory->bytes().front(), 'a');
  EXPECT_EQ(memory->bytes().back(), 'p');
  const_cast<char&>(memory->bytes()[5]) = 'Z';
  std::size_t sum = 0;
  for (const char byte : memory->bytes()) sum += static_cast<unsigned char>(byte);
  EXPECT_GT(sum, 0U);
  EXPECT_EQ(resident(memory->bytes()), size / static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
  forget_pages(memory->bytes().data(), size);
  EXPECT_EQ(resident(memory->bytes()), 0U);
  EXPECT_EQ(memory->bytes()[5], 'Z');
  EXPECT_EQ(memory->bytes()[size / 2], 'i');
  EXPECT_TRUE(lies_in_file(memory->bytes().data()));
  EXPECT_TRUE(lies_in_file(&memory->bytes().back()));
  EXPECT_FALSE(lies_in_file(memory->bytes().data() + size));
}

TEST(FileMemory, ForgettingLeavesOtherMemoryAlone) {
  std::vector<char> own(1U << 20U, 'x');
  forget_pages(own.data(), own.size());
  EXPECT_EQ(own[70'000], 'x');
  EXPECT_FALSE(lies_in_file(own.data()));
}

TEST(FileMemory, UsesAnIdleFileAgain) {
  std::string trouble;
  const std::size_t size = 1U << 20U;
  auto first = FileMemory::create(testing::TempDir(), size, trouble);
  if (!first) GTEST_SKIP() << trouble;
  ASSERT_TRUE(first->append(std::string(size, 'a')));
  const char* place = first->bytes().data();
  const auto second = FileMemory::create(testing::TempDir(), size, trouble);  // the first is in use
  EXPECT_NE(second->bytes().data(), place);
  first.reset();
  const auto third = FileMemory::create(testing::TempDir(), size - 100, trouble);
  EXPECT_EQ(third->bytes().data(), place);
  EXPECT_EQ(third->written(), 0U);
  ASSERT_TRUE(third->append("new"));
  EXPECT_EQ(third->bytes(), "new");
}

TEST(FileMemory, MapsExpectedPagesAtOnce) {
  std::string trouble;
  const std::size_t size = 1U << 20U;
  const auto memory = FileMemory::create(testing::TempDir(), size, trouble);
  if (!memory) GTEST_SKIP() << trouble;
  ASSERT_TRUE(memory->append(std::string(size, 'a')));
  expect_pages(memory->bytes().data(), size / 2);
  const std::size_t pages = resident(memory->bytes());
  EXPECT_TRUE(pages == 0 || pages >= size / 2 / static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));  // 0: an old system
  EXPECT_EQ(memory->bytes()[size / 2 - 1], 'a');
}

TEST(FileMemory, SaysWhyThereIsNone) {
  std::string trouble;
  EXPECT_EQ(FileMemory::create("/nowhere/at/all", 10, trouble), nullptr);
  EXPECT_NE(trouble.find("/nowhere/at/all: No such file"), std::string::npos) << trouble;
}

}  // namespace
}  // namespace chorus::inline files
