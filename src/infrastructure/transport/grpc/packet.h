#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "infrastructure/transport/grpc/session.h"

namespace chorus::inline transport_grpc {

inline constexpr std::uint32_t kStreamVersion = 3;
inline constexpr const char* kExchangeMethod = "/chorus.stream.Frames/Exchange";
inline constexpr std::size_t kSessionBytes = 16;
inline constexpr std::size_t kPacketOverhead = 1024;  ///< more than a packet has besides its data

/// One message of the stream (proto/stream.proto).
struct Packet {
  enum class Kind { kOpen, kOpened, kChunk, kAck, kBye };
  Kind kind = Kind::kOpen;
  std::uint32_t version = 0;
  std::string session = {};
  std::uint64_t epoch = 0;
  std::uint64_t received = 0;
  bool held = false;  ///< of kOpened: the last stream was cut while the server made it wait
  ChunkHeader chunk = {};
  std::string data = {};
};

/// Everything but the data of a chunk.
std::string encode_packet(const Packet& packet);
/// What precedes a chunk's bytes: the two together are the packet. It acknowledges frames up to `received`.
std::string encode_chunk_header(const Chunk& chunk, std::uint64_t received);
Result<Packet> decode_packet(std::string_view bytes);

/// Where the data of a chunk is, when it is the packet's last field: what is before `tag` is a packet without data.
struct DataPlace {
  std::size_t tag = 0, begin = 0;
};
inline constexpr std::size_t kPacketHead = 128;  ///< bytes that are enough to find it
/// Of a packet of `size` bytes, from its first ones. Nothing: read it as a whole.
std::optional<DataPlace> find_data(std::string_view head, std::size_t size);

}  // namespace chorus::inline transport_grpc
