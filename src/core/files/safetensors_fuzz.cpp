// Any bytes are either a DataError or a file whose tensors lie where the header says (tools/fuzz).
#include <cstdlib>

#include "core/base/error.h"
#include "core/files/safetensors_header.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  try {
    const auto header = chorus::parse_safetensors_header(file, "fuzz");
    size_t end = 0;
    for (const auto& tensor : header.tensors) {
      require(tensor.begin == end && tensor.begin <= tensor.end);
      end = tensor.end;
      const auto elements = chorus::elements_of(tensor.shape, tensor.type);
      require(elements && static_cast<size_t>(*elements) * chorus::bytes_of(tensor.type) == end - tensor.begin);
    }
    require(header.data_begin + end == size);

    std::string again = chorus::format_safetensors_header(header.tensors, header.metadata);
    require(again.size() % 8 == 0);
    again.resize(again.size() + end);
    const auto same = chorus::parse_safetensors_header(std::as_bytes(std::span(again)), "again");
    require(same.tensors.size() == header.tensors.size() && same.metadata == header.metadata);
    for (size_t i = 0; i < same.tensors.size(); ++i) {
      require(same.tensors[i].name == header.tensors[i].name && same.tensors[i].shape == header.tensors[i].shape);
      require(same.tensors[i].begin == header.tensors[i].begin && same.tensors[i].type == header.tensors[i].type);
    }
  } catch (const chorus::DataError&) {
  }
  return 0;
}
