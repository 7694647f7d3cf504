// Any bytes are a failure or a frame that survives being encoded and decoded again (tools/fuzz). Tensors that are views
// of the bytes and copies of them have the same values.
#include <cstdint>
#include <cstdlib>

#include "infrastructure/transport/wire/wire.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace chorus;
  const auto input = std::make_shared<const std::string>(reinterpret_cast<const char*>(bytes), size);
  const auto copied = decode_frame(*input);
  const auto viewed = decode_frame(input);
  if (copied.ok() != viewed.ok()) std::abort();
  if (!copied.ok()) return 0;
  const std::string again = encode_frame(copied.value());
  if (again.size() != encode_frame(viewed.value()).size()) std::abort();
  const auto back = decode_frame(again);
  if (!back.ok() || back.value().index() != copied.value().index()) std::abort();
  return 0;
}
