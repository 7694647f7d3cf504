#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "infrastructure/transport/grpc/packet.h"

namespace grpc {
class ByteBuffer;
}

namespace chorus::inline transport_grpc {

/// Packets as gRPC's buffers. A chunk's bytes are shared with its frame, not copied.
grpc::ByteBuffer to_buffer(const Packet& packet);
grpc::ByteBuffer to_buffer(const Chunk& chunk, std::uint64_t received);

/// A packet that has arrived. Its data stay where gRPC has put them.
struct ArrivedPacket {
  Packet packet = {};                       ///< without data
  std::vector<std::string_view> data = {};  ///< of a chunk, in pieces
  std::shared_ptr<const void> memory = {};  ///< of `data`
};
Result<ArrivedPacket> from_buffer(const grpc::ByteBuffer& buffer);

}  // namespace chorus::inline transport_grpc
