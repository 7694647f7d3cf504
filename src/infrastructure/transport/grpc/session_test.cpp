#include "infrastructure/transport/grpc/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "infrastructure/transport/grpc/server_session.h"

namespace chorus::inline transport_grpc {
namespace {

using testing::HasSubstr;

std::shared_ptr<const FrameBytes> text(std::string bytes) {
  return std::make_shared<const FrameBytes>(std::move(bytes));
}

std::string bytes_of(const Chunk& chunk) { return chunk.frame->flat().substr(chunk.offset, chunk.size); }

ChunkHeader header_of(const Chunk& chunk) { return {chunk.sequence, chunk.frame->size(), chunk.offset}; }

TEST(Session, LargeFramesNeedSpaceWhateverTheServersChunk) {
  for (const std::int64_t chunk : {1, 256, 4096}) {
    GrpcConfig config;
    config.chunk = chunk;
    const Session session(1, config);
    EXPECT_FALSE(session.begins_large({.sequence = 1, .size = 256U << 10U}, config)) << chunk;
    EXPECT_TRUE(session.begins_large({.sequence = 1, .size = 1U << 20U}, config)) << chunk;
  }
}

TEST(Outbox, CutsFramesIntoChunksAndKeepsThemUntilAcknowledged) {
  Outbox outbox(4);
  outbox.push(text("abcdefghij"));
  outbox.push(text(""));
  outbox.push(text("1234"));
  std::vector<std::string> seen;
  while (const auto chunk = outbox.next()) seen.push_back(std::to_string(chunk->sequence) + bytes_of(*chunk));
  EXPECT_THAT(seen, testing::ElementsAre("1abcd", "1efgh", "1ij", "2", "31234"));
  EXPECT_EQ(outbox.frames(), 3U);
  EXPECT_EQ(outbox.bytes(), 14U);
  EXPECT_TRUE(outbox.acknowledge(2));
  EXPECT_EQ(outbox.frames(), 1U);
  EXPECT_TRUE(outbox.acknowledge(1));  // an old one changes nothing
  EXPECT_FALSE(outbox.acknowledge(4));
  EXPECT_TRUE(outbox.acknowledge(3));
  EXPECT_EQ(outbox.bytes(), 0U);
}

TEST(Outbox, RestartsWithTheFirstMissingFrame) {
  Outbox outbox(2);
  for (const char* frame : {"aaa", "bbb", "ccc"}) outbox.push(text(frame));
  for (int i = 0; i < 3; ++i) (void)outbox.next();  // frame 2 is half written
  EXPECT_FALSE(outbox.acknowledge(2));              // so the far end cannot have it
  EXPECT_FALSE(outbox.restart(2));
  ASSERT_TRUE(outbox.restart(1));
  const auto chunk = outbox.next();
  EXPECT_EQ(chunk->sequence, 2U);
  EXPECT_EQ(chunk->offset, 0U);
}

TEST(Receipts, AreDueOnceFramesAreManyOrLargeOrOld) {
  Receipts few;
  EXPECT_FALSE(few.due());
  for (int i = 0; i < 3; ++i) few.add(10);
  EXPECT_FALSE(few.due());
  EXPECT_FALSE(few.due_after(std::chrono::hours(1)));
  EXPECT_TRUE(few.due_after(std::chrono::nanoseconds(0)));
  few.add(10);
  EXPECT_TRUE(few.due());
  few.clear();
  EXPECT_FALSE(few.due());
  EXPECT_FALSE(few.due_after(std::chrono::nanoseconds(0)));
  few.add(1U << 20U);
  EXPECT_TRUE(few.due());
  few.clear();
  few.demand();
  EXPECT_TRUE(few.due());
}

TEST(Assembler, RefusesWhatDoesNotContinueAFrame) {
  const auto after = [](const ChunkHeader& header, std::string_view data) {
    Assembler assembler(100);
    EXPECT_TRUE(assembler.add({1, 10, 0}, "12345").ok());
    const auto result = assembler.add(header, data);
    return result.ok() ? "accepted" : result.failure().message;
  };
  EXPECT_EQ(after({1, 10, 5}, "67890"), "accepted");
  EXPECT_THAT(after({1, 10, 4}, "67890"), HasSubstr("does not continue"));
  EXPECT_THAT(after({1, 10, 6}, "6789"), HasSubstr("does not continue"));
  EXPECT_THAT(after({1, 11, 5}, "67890"), HasSubstr("does not continue"));
  EXPECT_THAT(after({1, 10, 5}, "678901"), HasSubstr("does not fit"));
  EXPECT_THAT(after({1, 10, 5}, ""), HasSubstr("does not fit"));
  EXPECT_THAT(after({2, 10, 0}, "x"), HasSubstr("came after"));
  EXPECT_THAT(after({1, 10, ~0ULL}, "x"), HasSubstr("does not continue"));
}

TEST(Assembler, ChecksTheSizeBeforeItAllocates) {
  Assembler assembler(100);
  const auto huge = assembler.add({1, ~0ULL, 0}, "x");
  ASSERT_FALSE(huge.ok());
  EXPECT_THAT(huge.failure().message, HasSubstr("over the limit of"));
  EXPECT_TRUE(assembler.add({1, 100, 0}, std::string(100, 'x')).ok());
}

TEST(Assembler, LargeFramesLieInFiles) {
  const std::size_t size = kLargestInMemory + 5, step = 8U << 20U;
  Assembler assembler(2 * size, testing::TempDir());
  {
    std::optional<ArrivedFrame> frame;
    for (std::size_t at = 0; at < size; at += step) {
      const std::string data(std::min(step, size - at), static_cast<char>('a' + at / step));
      const std::string_view pieces[2] = {std::string_view(data).substr(0, 3), std::string_view(data).substr(3)};
      auto added = assembler.add({1, size, at}, pieces);
      if (!added.ok()) GTEST_SKIP() << added.failure().message;
      frame = std::move(added.value());
      EXPECT_EQ(frame.has_value(), at + step >= size);
    }
    ASSERT_TRUE(frame && frame->file);
    EXPECT_EQ(frame->size(), size);
    EXPECT_EQ(frame->file->bytes()[0], 'a');
    EXPECT_EQ(frame->file->bytes()[step], 'b');
    EXPECT_EQ(frame->file->bytes()[size - 1], 'i');
  }
  // A folder that is not there is no reason to lose what has arrived before.
  Assembler nowhere(2 * size, "/nowhere");
  Result<std::optional<ArrivedFrame>> result = std::optional<ArrivedFrame>();
  for (std::size_t at = 0; at < 2 * step; at += step) result = nowhere.add({1, size, at}, std::string(step, 'x'));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.failure().kind, Failure::Kind::kIo);
}

// Two ends whose connection is cut at random moments: every frame arrives once and in order.
TEST(Session, DeliversEveryFrameOnceDespiteCuts) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](unsigned below) { return static_cast<unsigned>(random() % below); };
    Outbox outbox(1 + draw(8));
    Assembler assembler(1000);
    std::vector<std::string> sent, arrived;
    std::vector<std::uint64_t> acknowledgements;  // under way
    for (int step = 0; step < 2000 && (sent.size() < 40 || arrived.size() < 40); ++step) {
      if (sent.size() < 40 && draw(4) == 0) {
        sent.push_back(std::string(draw(20), static_cast<char>('a' + sent.size() % 26)));
        outbox.push(text(sent.back()));
      }
      if (const auto chunk = outbox.next()) {
        auto frame = assembler.add(header_of(*chunk), bytes_of(*chunk));
        ASSERT_TRUE(frame.ok()) << seed << ": " << frame.failure().message;
        if (frame.value()) {
          arrived.push_back(frame.value()->bytes);
          acknowledgements.push_back(assembler.received());
        }
      }
      if (!acknowledgements.empty() && draw(3) == 0) {
        ASSERT_TRUE(outbox.acknowledge(acknowledgements.front()));
        acknowledgements.erase(acknowledgements.begin());
      }
      if (draw(10) == 0) {  // cut: chunks under way and all acknowledgements are lost
        for (unsigned lost = draw(3); lost > 0; --lost) (void)outbox.next();
        acknowledgements.clear();
        assembler.restart();
        ASSERT_TRUE(outbox.restart(assembler.received()));
      }
    }
    ASSERT_EQ(arrived, sent) << seed;
  }
}

}  // namespace
}  // namespace chorus::inline transport_grpc
