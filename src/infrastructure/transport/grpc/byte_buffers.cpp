#include "infrastructure/transport/grpc/byte_buffers.h"

#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <utility>

namespace chorus::inline transport_grpc {

grpc::ByteBuffer to_buffer(const Packet& packet) {
  const grpc::Slice slice(encode_packet(packet));
  return {&slice, 1};
}

grpc::ByteBuffer to_buffer(const Chunk& chunk, std::uint64_t received) {
  std::vector<grpc::Slice> slices{grpc::Slice(encode_chunk_header(chunk, received))};
  using Holder = std::shared_ptr<const FrameBytes>;
  for (const std::string_view part : chunk.frame->parts(chunk.offset, chunk.size)) {
    slices.emplace_back(
        const_cast<char*>(part.data()), part.size(), [](void* held) { delete static_cast<Holder*>(held); },
        new Holder(chunk.frame));
  }
  return {slices.data(), slices.size()};
}

Result<ArrivedPacket> from_buffer(const grpc::ByteBuffer& buffer) {
  const Failure unreadable{Failure::Kind::kMalformed, "a packet cannot be read"};
  const auto slices = std::make_shared<std::vector<grpc::Slice>>();
  if (!buffer.Dump(slices.get()).ok()) return unreadable;
  ArrivedPacket arrived;
  arrived.memory = slices;
  const auto view = [](const grpc::Slice& slice) {
    return std::string_view(reinterpret_cast<const char*>(slice.begin()), slice.size());
  };
  std::string head;
  for (const grpc::Slice& slice : *slices) {
    head += view(slice).substr(0, kPacketHead - head.size());
    if (head.size() == kPacketHead) break;
  }
  const auto place = find_data(head, buffer.Length());
  if (!place) {
    grpc::Slice whole;
    if (!buffer.DumpToSingleSlice(&whole).ok()) return unreadable;
    auto packet = decode_packet(view(whole));
    if (!packet.ok()) return packet.failure();
    arrived.packet = std::move(packet).value();
    const auto data = std::make_shared<const std::string>(std::move(arrived.packet.data));
    arrived.data.push_back(*data);
    arrived.memory = data;
    return arrived;
  }
  auto packet = decode_packet(std::string_view(head).substr(0, place->tag));
  if (!packet.ok()) return packet.failure();
  arrived.packet = std::move(packet).value();
  std::size_t skip = place->begin;
  for (const grpc::Slice& slice : *slices) {
    const std::size_t before = std::min(skip, slice.size());
    skip -= before;
    if (before < slice.size()) arrived.data.push_back(view(slice).substr(before));
  }
  return arrived;
}

}  // namespace chorus::inline transport_grpc
