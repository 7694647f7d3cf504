#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/tensor/stored_type.h"

namespace chorus::inline files {

/// One tensor of a file written by Python's `torch.save(state_dict)`.
struct PickledTensor {
  std::string name;
  StoredType type = StoredType::kF32;
  std::vector<int64_t> shape, strides;  ///< strides in elements, not negative
  std::span<const std::byte> bytes;     ///< in the file, from the first to the last element that the strides reach
};

/// The tensors of a `pytorch_model.bin`, in saved order: the zip format of PyTorch 1.6 and later, and the older one, a
/// row of pickles with the storages behind them, in which most well-known models were published. Nothing is executed
/// (core/files/pickle.h). Only dictionaries of tensors and parameters are accepted; any other Python object is a
/// DataError starting with `where`, as are missing or short storages and tensors that exceed theirs. Hand-written
/// because LibTorch's unpickler trusts sizes, strides and offsets, so that a crafted file reads beyond its storage.
///
///     const MappedFile file(path);
///     for (const PickledTensor& tensor : parse_torch_checkpoint(file.bytes(), path.string())) ...
std::vector<PickledTensor> parse_torch_checkpoint(std::span<const std::byte> file, const std::string& where);

}  // namespace chorus::inline files
