// Any bytes are no message of a secure sum, or one that is written as the same bytes again (tools/fuzz).
#include <cstdint>
#include <cstdlib>

#include "algorithm/secure/messages.h"

namespace {

using namespace chorus;

template <typename Read, typename Write>
void there_and_back(const MessageHead& head, ByteView bytes, Read read, Write write) {
  const auto value = read(bytes);
  if (!value) return;
  const Bytes again = write(head, *value);
  if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteView given = std::as_bytes(std::span(data, size));
  const auto head = read_head(given);
  const auto body = body_of(given);
  if (!head || !body) return 0;
  const Bytes bytes = end_message(Bytes(given.begin(), body->end()));
  if (!undamaged(bytes)) std::abort();
  there_and_back(*head, bytes, read_advertisement, write_advertisement);
  there_and_back(*head, bytes, read_keys, write_keys);
  there_and_back(*head, bytes, read_shares, write_shares);
  there_and_back(*head, bytes, read_survivors, write_survivors);
  there_and_back(*head, bytes, read_signature, write_signature);
  there_and_back(*head, bytes, read_signatures, write_signatures);
  there_and_back(*head, bytes, read_revealed, write_revealed);
  there_and_back(*head, bytes, read_masked, [](const MessageHead& its, const MaskedInput& value) {
    return write_masked(its, value.bits, value.words);
  });
  return 0;
}
