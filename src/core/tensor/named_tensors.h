#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor/stored_type.h"

namespace chorus::inline tensor {

using NamedTensor = std::pair<std::string, at::Tensor>;

/// LibTorch's type for a type on disk, and back; nothing for types that our files cannot hold (complex, quantised).
at::ScalarType scalar_type(StoredType type);
std::optional<StoredType> stored_type(at::ScalarType type);

/// A tensor in a mapped file. The bytes need not be aligned; they outlive the view.
struct StoredView {
  std::span<const std::byte> bytes;
  StoredType type = StoredType::kF32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  ///< in elements; empty: contiguous, row-major
};

/// A copy on the CPU, contiguous, in the type of the file.
at::Tensor copy_of(const StoredView& view);

/// Copies into `destination`, which may have another floating-point type, be strided (a slice of a flat buffer) and be
/// on any device. Makes no second copy on the CPU. Ignores autograd. InternalError if the shapes differ, or if
/// floating-point elements would become integers.
void copy_into(const StoredView& view, at::Tensor destination);

/// The name of the first tensor with a NaN or an infinity, or nothing. One pass, no copies, any device.
///
///     if (const auto name = first_non_finite(tensors)) throw DataError(*name + " holds NaN");
std::optional<std::string> first_non_finite(std::span<const NamedTensor> tensors);
bool all_finite(const at::Tensor& tensor);

}  // namespace chorus::inline tensor
