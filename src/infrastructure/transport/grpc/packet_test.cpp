#include "infrastructure/transport/grpc/packet.h"

#include <gtest/gtest.h>

namespace chorus::inline transport_grpc {
namespace {

TEST(Packet, AHeaderAndBytesAreOnePacket) {
  const auto frame = std::make_shared<const FrameBytes>("0123456789");
  const Chunk chunk{frame, 7, 2, 5};
  const auto packet = decode_packet(encode_chunk_header(chunk, 4) + frame->flat().substr(2, 5));
  ASSERT_TRUE(packet.ok());
  EXPECT_EQ(packet.value().kind, Packet::Kind::kChunk);
  EXPECT_EQ(packet.value().chunk.sequence, 7U);
  EXPECT_EQ(packet.value().chunk.size, 10U);
  EXPECT_EQ(packet.value().chunk.offset, 2U);
  EXPECT_EQ(packet.value().received, 4U);
  EXPECT_EQ(packet.value().data, "23456");
}

TEST(Packet, TheDataOfAChunkIsFoundWithoutReadingIt) {
  const auto frame = std::make_shared<const FrameBytes>(std::string(1'000'000, 'x'));
  const std::string head = encode_chunk_header({frame, 300, 4096, 500'000}, 1000);
  const auto place = find_data(head + "xxxxx", head.size() + 500'000);
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->begin, head.size());
  const auto packet = decode_packet(std::string_view(head).substr(0, place->tag));
  ASSERT_TRUE(packet.ok());
  EXPECT_EQ(packet.value().chunk.sequence, 300U);
  EXPECT_EQ(packet.value().chunk.size, 1'000'000U);
  EXPECT_EQ(packet.value().chunk.offset, 4096U);
  EXPECT_FALSE(find_data(head, head.size() + 499'999).has_value());
  EXPECT_FALSE(find_data(encode_packet({.kind = Packet::Kind::kAck, .received = 5}), 4).has_value());
  EXPECT_FALSE(find_data("", 0).has_value());
}

TEST(Packet, AnEmptyFrameIsAPacketToo) {
  const auto packet = decode_packet(encode_chunk_header({std::make_shared<const FrameBytes>(""), 1, 0, 0}, 0));
  ASSERT_TRUE(packet.ok());
  EXPECT_EQ(packet.value().chunk.size, 0U);
  EXPECT_EQ(packet.value().data, "");
}

TEST(Packet, ControlPacketsRoundTrip) {
  const Packet open{
      .kind = Packet::Kind::kOpen, .version = 3, .session = "0123456789abcdef", .epoch = 5, .received = 6};
  const auto packet = decode_packet(encode_packet(open));
  ASSERT_TRUE(packet.ok());
  EXPECT_EQ(packet.value().kind, Packet::Kind::kOpen);
  EXPECT_EQ(packet.value().version, 3U);
  EXPECT_EQ(packet.value().session, "0123456789abcdef");
  EXPECT_EQ(packet.value().epoch, 5U);
  EXPECT_EQ(packet.value().received, 6U);
}

TEST(Packet, AServerSaysWhetherItMadeTheLastStreamWait) {
  for (const bool held : {true, false}) {
    const auto packet = decode_packet(encode_packet({.kind = Packet::Kind::kOpened, .held = held}));
    ASSERT_TRUE(packet.ok());
    EXPECT_EQ(packet.value().held, held);
  }
}

TEST(Packet, InvalidPacketsAreRefused) {
  EXPECT_FALSE(decode_packet("these are no packets").ok());
  EXPECT_FALSE(decode_packet(std::string("\x08\x63", 2)).ok());                  // kind 99
  EXPECT_FALSE(decode_packet(std::string("\x7a\xff\xff\xff\xff\x07", 6)).ok());  // announces 2 GiB that are missing
}

}  // namespace
}  // namespace chorus::inline transport_grpc
