#include "infrastructure/transport/mailbox/post.h"

#include <gtest/gtest.h>

namespace chorus::inline transport_mailbox {
namespace {

Post chunk(std::uint64_t sequence, std::uint64_t size, std::uint64_t offset) {
  return {Post::Kind::kChunk, 7, sequence, size, offset};
}

TEST(Post, ComesBackAsItWas) {
  std::string_view data;
  const std::string bytes = encode_post({Post::Kind::kChunk, 1, ~0ULL, 3, 1ULL << 40U}, "abc");
  const auto post = decode_post(bytes, data);
  ASSERT_TRUE(post.ok());
  EXPECT_EQ(post.value().kind, Post::Kind::kChunk);
  EXPECT_EQ(post.value().sequence, ~0ULL);
  EXPECT_EQ(post.value().offset, 1ULL << 40U);
  EXPECT_EQ(data, "abc");
  for (std::size_t size = 0; size < kPostBytes; ++size) {
    EXPECT_FALSE(decode_post(std::string_view(bytes).substr(0, size), data).ok()) << size;
  }
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    EXPECT_FALSE(decode_post(damaged, data).ok()) << at;
  }
  EXPECT_FALSE(decode_post(encode_post({static_cast<Post::Kind>(9)}), data).ok());
}

TEST(Post, LeavesTheDataToASystemThatFindsDamage) {
  std::string_view data;
  Post post = chunk(1, 3, 0);
  post.checks_data = false;
  const std::string bytes = encode_post(post, "abc");
  ASSERT_TRUE(decode_post(bytes, data).ok());
  EXPECT_FALSE(decode_post(bytes, data).value().checks_data);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x80);
    EXPECT_EQ(decode_post(damaged, data).ok(), at >= kPostBytes) << at;
  }
}

TEST(Post, OfAnotherVersionSaysWhoseItIs) {
  std::string_view data;
  const auto post = decode_post(encode_post({.kind = static_cast<Post::Kind>(99), .session = 5, .version = 77}), data);
  ASSERT_TRUE(post.ok());
  EXPECT_EQ(post.value().version, 77U);
  EXPECT_EQ(post.value().session, 5U);
}

TEST(FrameGatherer, DeliversEachFrameOnceThoughLettersComeTwice) {
  FrameGatherer gatherer(10);
  EXPECT_FALSE(gatherer.add(chunk(1, 4, 0), "ab").value());
  EXPECT_FALSE(gatherer.add(chunk(1, 4, 0), "ab").value());
  EXPECT_EQ(gatherer.add(chunk(1, 4, 2), "cd").value(), "abcd");
  EXPECT_FALSE(gatherer.add(chunk(1, 4, 2), "cd").value());
  EXPECT_EQ(gatherer.add(chunk(2, 0, 0), "").value(), "");
}

TEST(FrameGatherer, RefusesGapsOverlapsAndSizes) {
  EXPECT_FALSE(FrameGatherer(10).add(chunk(2, 4, 0), "abcd").ok());
  EXPECT_FALSE(FrameGatherer(10).add(chunk(1, 11, 0), "abcd").ok());
  EXPECT_FALSE(FrameGatherer(10).add(chunk(1, 4, 2), "cd").ok());
  EXPECT_FALSE(FrameGatherer(10).add(chunk(1, 2, 0), "abcd").ok());
  EXPECT_FALSE(FrameGatherer(10).add(chunk(1, 2, 0), "").ok());
  EXPECT_FALSE(FrameGatherer(10).add(chunk(1, ~0ULL, 0), "abcd").ok());
  FrameGatherer changed(10);
  EXPECT_TRUE(changed.add(chunk(1, 4, 0), "ab").ok());
  EXPECT_FALSE(changed.add(chunk(1, 5, 2), "cde").ok());
}

}  // namespace
}  // namespace chorus::inline transport_mailbox
