// Any bytes are a failure or a letter that encodes to the same bytes, and frames never outgrow their limit
// (tools/fuzz). The input is a series of letters, each with two bytes of length before it.
#include <cstdint>
#include <cstdlib>

#include "infrastructure/transport/mailbox/post.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace chorus;
  constexpr std::size_t kLimit = 1 << 16;
  std::string_view input(reinterpret_cast<const char*>(bytes), size);
  FrameGatherer gatherer(kLimit);
  while (input.size() > 2) {
    const std::size_t length = static_cast<unsigned char>(input[0]) + 256U * static_cast<unsigned char>(input[1]);
    input.remove_prefix(2);
    const std::string_view letter = input.substr(0, length);
    input.remove_prefix(letter.size());
    std::string_view data;
    const auto post = decode_post(letter, data);
    if (post.ok() && encode_post(post.value(), data) != letter) std::abort();
    // The checksum would keep the fuzzer out: what follows sees the letter as if it were right.
    Post forged = post.ok() ? post.value() : Post{};
    if (!post.ok() && letter.size() > 4) {
      forged.sequence = static_cast<unsigned char>(letter[0]) % 4;
      forged.size = static_cast<unsigned char>(letter[1]) * 300U;
      forged.offset = static_cast<unsigned char>(letter[2]);
      data = letter.substr(4);
    }
    const auto frame = gatherer.add(forged, data);
    if (frame.ok() && frame.value() && frame.value()->size() > kLimit) std::abort();
  }
  return 0;
}
