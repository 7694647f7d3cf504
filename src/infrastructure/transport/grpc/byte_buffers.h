#pragma once

#include "infrastructure/transport/grpc/packet.h"

namespace grpc {
class ByteBuffer;
}

namespace chorus::inline transport_grpc {

/// Packets as gRPC's buffers. A chunk's bytes are shared with its frame, not copied.
grpc::ByteBuffer to_buffer(const Packet& packet);
grpc::ByteBuffer to_buffer(const Chunk& chunk);
Result<Packet> from_buffer(const grpc::ByteBuffer& buffer);

}  // namespace chorus::inline transport_grpc
