#include "infrastructure/transport/grpc/byte_buffers.h"

#include <grpcpp/support/byte_buffer.h>

namespace chorus::inline transport_grpc {

grpc::ByteBuffer to_buffer(const Packet& packet) {
  const grpc::Slice slice(encode_packet(packet));
  return {&slice, 1};
}

grpc::ByteBuffer to_buffer(const Chunk& chunk) {
  using Holder = std::shared_ptr<const std::string>;
  auto* holder = new Holder(chunk.frame);
  const grpc::Slice slices[2] = {grpc::Slice(encode_chunk_header(chunk)),
                                 grpc::Slice(
                                     const_cast<char*>(chunk.frame->data()) + chunk.offset, chunk.size,
                                     [](void* held) { delete static_cast<Holder*>(held); }, holder)};
  return {slices, 2};
}

Result<Packet> from_buffer(const grpc::ByteBuffer& buffer) {
  grpc::Slice slice;
  if (!buffer.DumpToSingleSlice(&slice).ok()) return Failure{Failure::Kind::kMalformed, "a packet cannot be read"};
  return decode_packet({reinterpret_cast<const char*>(slice.begin()), slice.size()});
}

}  // namespace chorus::inline transport_grpc
