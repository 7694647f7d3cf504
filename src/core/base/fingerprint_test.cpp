#include "core/base/fingerprint.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace chorus::inline base {
namespace {

std::string counting(std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += static_cast<char>(i % 256);
  return bytes;
}

// The numbers are those of the Python package mmh3, a binding of the reference implementation.
TEST(Fingerprint, IsMurmurHash3) {
  struct Case {
    std::string bytes;
    std::uint64_t seed;
    const char* expected;
  };
  const Case cases[] = {{"", 0, "00000000000000000000000000000000"},
                        {"", 42, "f02aa77dfa1b8523d1016610da11cbb9"},
                        {"a", 0, "85555565f6597889e6b53a48510e895a"},
                        {"a", 42, "28259ca4fdf626b025ebca9125f82b15"},
                        {"hello", 0, "cbd8a7b341bd9b025b1e906a48ae1d19"},
                        {"hello, world", 0, "342fac623a5ebc8e4cdcbc079642414d"},
                        {"The quick brown fox jumps over the lazy dog", 0, "e34bbc7bbc071b6c7a433ca9c49a9347"},
                        {"The quick brown fox jumps over the lazy dog", 42, "740dcf93fe0bd5d7c4546cf4ec705c8f"},
                        // Around one block of 16 bytes, and with bytes that are negative as chars.
                        {counting(15), 0, "47231598fd4925e9cd846dee88c67de9"},
                        {counting(16), 0, "444924b591903f30ab906456762fe845"},
                        {counting(16), 42, "52b5fa4f1786de293c4d5bc560421e40"},
                        {counting(17), 0, "5c76f40f9fe7c20ec15f026b9edaa824"},
                        {counting(768), 0, "cf926c3003b926b6fa53d9e5e2f34638"},
                        {counting(768), 42, "714a8df84dbf9b1014f6953a1cba68eb"}};
  for (const Case& one : cases) {
    EXPECT_EQ(fingerprint(one.bytes, {one.seed, one.seed}).hex(), one.expected) << one.bytes.size();
  }
}

TEST(Fingerprint, ChainedPiecesAreNotConfused) {
  const auto chain = [](std::string_view a, std::string_view b) { return fingerprint(b, fingerprint(a)); };
  EXPECT_NE(chain("ab", "c"), chain("a", "bc"));
  EXPECT_NE(chain("abc", ""), chain("", "abc"));
  EXPECT_NE(chain("abc", ""), fingerprint("abc"));
  EXPECT_EQ(chain("ab", "c"), chain("ab", "c"));
}

TEST(Fingerprint, EveryFlippedBitChangesIt) {
  std::string bytes = counting(67);
  std::set<std::string> seen{fingerprint(bytes).hex()};
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    EXPECT_TRUE(seen.insert(fingerprint(bytes).hex()).second) << bit;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
  }
}

TEST(Fingerprint, HexKeepsLeadingZeros) { EXPECT_EQ((Fingerprint{1, 0xab}.hex()), "000000000000000100000000000000ab"); }

}  // namespace
}  // namespace chorus::inline base
