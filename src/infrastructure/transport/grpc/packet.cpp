#include "infrastructure/transport/grpc/packet.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <limits>

#include "stream.pb.h"

namespace chorus::inline transport_grpc {

std::string encode_packet(const Packet& packet) {
  stream::Packet message;
  message.set_kind(static_cast<stream::Packet::Kind>(packet.kind));
  message.set_version(packet.version);
  message.set_session(packet.session);
  message.set_epoch(packet.epoch);
  message.set_received(packet.received);
  message.set_held(packet.held);
  return message.SerializeAsString();
}

std::string encode_chunk_header(const Chunk& chunk, std::uint64_t received) {
  stream::Packet message;
  message.set_kind(stream::Packet::CHUNK);
  message.set_sequence(chunk.sequence);
  message.set_size(chunk.frame->size());
  message.set_offset(chunk.offset);
  message.set_received(received);
  std::string bytes = message.SerializeAsString();
  if (chunk.size == 0) return bytes;
  constexpr std::uint32_t kLengthDelimited = 2;
  google::protobuf::io::StringOutputStream end(&bytes);
  google::protobuf::io::CodedOutputStream out(&end);
  out.WriteTag((static_cast<std::uint32_t>(stream::Packet::kDataFieldNumber) << 3U) | kLengthDelimited);
  out.WriteVarint64(chunk.size);
  out.Trim();
  return bytes;
}

Result<Packet> decode_packet(std::string_view bytes) {
  stream::Packet message;
  if (bytes.size() > std::numeric_limits<int>::max() ||
      !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Failure{Failure::Kind::kMalformed, "a packet cannot be read"};
  }
  if (!stream::Packet::Kind_IsValid(message.kind())) {
    return Failure{Failure::Kind::kMalformed, fmt::format("there is no packet of kind {}", message.kind())};
  }
  Packet packet;
  packet.kind = static_cast<Packet::Kind>(message.kind());
  packet.version = message.version();
  packet.session = std::move(*message.mutable_session());
  packet.epoch = message.epoch();
  packet.received = message.received();
  packet.held = message.held();
  packet.chunk = {message.sequence(), message.size(), message.offset()};
  packet.data = std::move(*message.mutable_data());
  return packet;
}

std::optional<DataPlace> find_data(std::string_view head, std::size_t size) {
  constexpr std::uint32_t kDataTag = (static_cast<std::uint32_t>(stream::Packet::kDataFieldNumber) << 3U) | 2U;
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const std::uint8_t*>(head.data()),
                                            static_cast<int>(head.size()));
  for (;;) {
    DataPlace place{static_cast<std::size_t>(in.CurrentPosition())};
    const std::uint32_t tag = in.ReadTag();
    std::uint32_t length = 0;
    std::uint64_t number = 0;
    if (tag == kDataTag) {
      if (!in.ReadVarint32(&length)) return std::nullopt;
      place.begin = static_cast<std::size_t>(in.CurrentPosition());
      return place.begin + length == size ? std::optional(place) : std::nullopt;
    }
    const std::uint32_t kind = tag & 7U;
    const bool skipped =
        tag != 0 &&
        ((kind == 0 && in.ReadVarint64(&number)) || (kind == 1 && in.ReadLittleEndian64(&number)) ||
         (kind == 2 && in.ReadVarint32(&length) && length <= head.size() && in.Skip(static_cast<int>(length))));
    if (!skipped) return std::nullopt;
  }
}

}  // namespace chorus::inline transport_grpc
