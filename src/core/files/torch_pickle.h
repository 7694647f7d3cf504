#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/tensor/stored_type.h"

namespace chorus {

/// One tensor of a file that Python's `torch.save(state_dict)` wrote.
struct PickledTensor {
  std::string name;
  StoredType type = StoredType::kF32;
  std::vector<int64_t> shape, strides;  ///< strides in elements, none negative
  std::span<const std::byte> bytes;     ///< into the file, from the first element to the last that the strides reach
};

/// The tensors of a `pytorch_model.bin` (the zip format of PyTorch 1.6 and later), in the order they were saved.
/// Nothing is executed (core/files/pickle.h): only dictionaries of tensors and parameters are understood, and any other
/// Python object in the file is a DataError that starts with `where`, as are storages that are missing or short, and
/// tensors that reach beyond theirs. Written by hand because LibTorch's own unpickler trusts the sizes, strides and
/// offsets it finds, so that a made-up file reads beyond its storage.
///
///     const MappedFile file(path);
///     for (const PickledTensor& tensor : parse_torch_checkpoint(file.bytes(), path.string())) ...
std::vector<PickledTensor> parse_torch_checkpoint(std::span<const std::byte> file, const std::string& where);

}  // namespace chorus
