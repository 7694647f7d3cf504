// Any bytes are either a DataError or tensors whose elements all lie in the file (tools/fuzz). Bytes that do not look
// like a zip file or an old checkpoint go to the pickle parser alone.
#include <cstdlib>

#include "core/base/error.h"
#include "core/files/pickle.h"
#include "core/files/torch_pickle.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  try {
    const bool old = size > 2 && data[2] == 0x8a;  // the magic number of PyTorch before 1.6
    if (size == 0 || (data[0] != 'P' && !old)) {
      const auto pickle = chorus::parse_pickle(
          file, [](std::string_view) { return true; }, "fuzz");
      require(pickle.root < pickle.values.size());
      for (const auto& value : pickle.values) {
        require(value.parts[0] < pickle.values.size() && value.parts[1] < pickle.values.size());
        for (const auto item : value.items) require(item < pickle.values.size());
      }
      return 0;
    }
    for (const auto& tensor : chorus::parse_torch_checkpoint(file, "fuzz")) {
      const auto elements = chorus::elements_of(tensor.shape, tensor.type);
      require(elements && tensor.shape.size() == tensor.strides.size());
      if (*elements == 0) continue;
      size_t last = 0;
      for (size_t i = 0; i < tensor.shape.size(); ++i)
        last += static_cast<size_t>((tensor.shape[i] - 1) * tensor.strides[i]);
      require(tensor.bytes.size() == (last + 1) * chorus::bytes_of(tensor.type));
      unsigned sum = 0;
      for (const std::byte byte : tensor.bytes) sum += static_cast<unsigned>(byte);
      static volatile unsigned sink = 0;
      sink = sum;
    }
  } catch (const chorus::DataError&) {
  }
  return 0;
}
