#include "core/base/byte_reader.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace chorus::inline base {
namespace {

ByteReader reader_of(std::string_view bytes) { return ByteReader(std::as_bytes(std::span(bytes))); }

TEST(ByteReader, TakesLittleEndianNumbersInTurn) {
  const std::string bytes("\x01\x02\x03\x04\x05\x06\xff\xff\xff\xff", 10);
  ByteReader reader = reader_of(bytes);
  EXPECT_EQ(reader.take<std::uint16_t>(), 0x0201);
  EXPECT_EQ(reader.take<std::uint32_t>(), 0x06050403U);
  EXPECT_EQ(reader.left(), 4U);
  EXPECT_EQ(reader.take<std::int32_t>(), -1);
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(reader.left(), 0U);
}

TEST(ByteReader, OnceSomethingIsMissingNothingComesAnyMore) {
  const std::string bytes = "abcdef";
  ByteReader reader = reader_of(bytes);
  EXPECT_EQ(reader.text(2), "ab");
  EXPECT_EQ(reader.take<std::uint64_t>(), 0U);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.left(), 0U);
  EXPECT_EQ(reader.text(1), "") << "the four bytes that are left are not given out";
  EXPECT_EQ(reader.take<std::uint8_t>(), 0);
  EXPECT_TRUE(reader.bytes(0).empty());
  EXPECT_FALSE(reader.ok());
}

TEST(ByteReader, ALengthThatWouldWrapAroundIsRefused) {
  const std::string bytes = "abc";
  ByteReader reader = reader_of(bytes);
  EXPECT_TRUE(reader.bytes(static_cast<std::size_t>(-1)).empty());
  EXPECT_FALSE(reader.ok());
}

TEST(ByteReader, LinesEndWithALineFeed) {
  const std::string bytes = "one\n\nthree";
  ByteReader reader = reader_of(bytes);
  EXPECT_EQ(reader.line(), "one");
  EXPECT_EQ(reader.line(), "");
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(reader.line(), "") << "a line without its end is none";
  EXPECT_FALSE(reader.ok());
}

TEST(ByteReader, NothingAtAllIsFineUntilSomethingIsWanted) {
  ByteReader reader = reader_of("");
  EXPECT_TRUE(reader.ok());
  EXPECT_TRUE(reader.bytes(0).empty());
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(reader.take<std::uint8_t>(), 0);
  EXPECT_FALSE(reader.ok());
}

}  // namespace
}  // namespace chorus::inline base
