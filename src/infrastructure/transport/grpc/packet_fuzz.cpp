// Any bytes are a failure or a packet, and what chunks become never outgrows its limit (tools/fuzz). The input is a
// series of packets, each with two bytes of length before it.
#include <cstdint>
#include <cstdlib>

#include "infrastructure/transport/grpc/packet.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace chorus;
  constexpr std::size_t kLimit = 1 << 16;
  std::string_view input(reinterpret_cast<const char*>(bytes), size);
  Assembler assembler(kLimit);
  Outbox outbox(100);
  outbox.push(std::make_shared<const FrameBytes>(std::string(1000, 'x')));
  while (input.size() > 2) {
    const std::size_t length = static_cast<unsigned char>(input[0]) + 256U * static_cast<unsigned char>(input[1]);
    input.remove_prefix(2);
    const std::string_view one = input.substr(0, length);
    input.remove_prefix(one.size());
    const auto packet = decode_packet(one);
    // The short way of reading a chunk agrees with the long one.
    if (const auto cut = find_data(one.substr(0, kPacketHead), one.size())) {
      const auto head = decode_packet(one.substr(0, cut->tag));
      if (head.ok() && packet.ok() && one.substr(cut->begin) != packet.value().data) std::abort();
    }
    if (!packet.ok()) continue;
    const auto frame = assembler.add(packet.value().chunk, packet.value().data);
    if (frame.ok() && frame.value() && frame.value()->size() > kLimit) std::abort();
    (void)outbox.next();
    if (!outbox.acknowledge(packet.value().received)) (void)outbox.restart(packet.value().received);
  }
  return 0;
}
