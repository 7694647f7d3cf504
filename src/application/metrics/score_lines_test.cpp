#include "application/metrics/score_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>

#include "core/base/error.h"
#include "tests/support.h"

namespace chorus::inline metrics {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class ScoreLinesTest : public testing::Test {
 protected:
  std::string file(const std::string& bytes) const {
    std::ofstream(folder_ / "lines", std::ios::binary | std::ios::trunc) << bytes;
    return (folder_ / "lines").string();
  }
  std::string zipped(const std::string& bytes) const {
    const std::string path = (folder_ / "lines.gz").string();
    const gzFile out = gzopen(path.c_str(), "wb");
    gzwrite(out, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(out);
    return path;
  }
  static std::vector<std::string> all(const std::string& path) {
    ScoreLines lines(path);
    std::vector<std::string> result;
    for (std::string line; lines.next(line);) result.push_back(line);
    return result;
  }

  TemporaryFolder folder_;
};

TEST_F(ScoreLinesTest, ReadsLinesOfEverySystem) {
  const std::pair<std::string, std::vector<std::string>> cases[] = {{"", {}},
                                                                    {"\n", {""}},
                                                                    {"a\nb\n", {"a", "b"}},
                                                                    {"a\nb", {"a", "b"}},
                                                                    {"a\r\n\r\nb\r\n", {"a", "", "b"}},
                                                                    {"\xEF\xBB\xBF"
                                                                     "a\nb\n",
                                                                     {"a", "b"}},
                                                                    {"a\n\xEF\xBB\xBF"
                                                                     "b\n",
                                                                     {"a",
                                                                      "\xEF\xBB\xBF"
                                                                      "b"}},  // only at the beginning
                                                                    {"a\rb\n", {"a\rb"}},
                                                                    {" \n\t", {" ", "\t"}}};
  for (const auto& [bytes, expected] : cases) {
    EXPECT_EQ(all(file(bytes)), expected) << testing::PrintToString(bytes);
    EXPECT_EQ(all(zipped(bytes)), expected) << testing::PrintToString(bytes);
  }
}

TEST_F(ScoreLinesTest, LinesMayCrossTheBuffer) {
  std::string bytes;
  std::vector<std::string> expected;
  for (std::size_t i = 0; i < 40; ++i) {
    expected.emplace_back(i * 997 % 70000, static_cast<char>('a' + i % 26));  // up to beyond one chunk of 65,536
    bytes += expected.back() + "\n";
  }
  EXPECT_EQ(all(file(bytes)), expected);
  EXPECT_EQ(all(zipped(bytes)), expected);
}

TEST_F(ScoreLinesTest, ALineCanBeGivenBack) {
  ScoreLines lines(file("one\ntwo\nthree"));
  std::string line;
  EXPECT_THROW(lines.put_back(), InternalError);
  ASSERT_TRUE(lines.next(line));
  lines.put_back();
  EXPECT_EQ(lines.number(), 0U);
  ASSERT_TRUE(lines.next(line));
  EXPECT_EQ(line, "one");
  EXPECT_EQ(lines.number(), 1U);
  ASSERT_TRUE(lines.next(line) && lines.next(line));
  EXPECT_EQ(line, "three");
  EXPECT_THAT(lines.place(), HasSubstr("lines:3"));
  lines.put_back();
  ASSERT_TRUE(lines.next(line));
  EXPECT_EQ(line, "three");
  EXPECT_FALSE(lines.next(line));
  EXPECT_FALSE(lines.next(line));
}

TEST_F(ScoreLinesTest, WhatCannotBeReadIsNamed) {
  EXPECT_THAT(message_of<DataError>([&] { ScoreLines((folder_ / "none").string()); }), HasSubstr("no such file"));
  EXPECT_THAT(message_of<DataError>([&] { ScoreLines(folder_.path().string()); }), HasSubstr("folder"));
  EXPECT_THAT(message_of<DataError>([&] { (void)all(file("good\n\xff\n")); }),
              AllOf(HasSubstr("lines:2"), HasSubstr("UTF-8")));
  const std::string path = zipped(std::string(100000, 'x') + "\n" + std::string(1000, 'y'));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 10);
  EXPECT_THAT(message_of<DataError>([&] { (void)all(path); }), HasSubstr("damaged"));
}

}  // namespace
}  // namespace chorus::inline metrics
