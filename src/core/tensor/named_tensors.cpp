#include "core/tensor/named_tensors.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <array>
#include <cmath>
#include <cstring>

#include "core/base/error.h"

namespace chorus::inline tensor {
namespace {

constexpr std::array<std::pair<StoredType, at::ScalarType>, 10> kTensorTypes = {{{StoredType::kBool, at::kBool},
                                                                                 {StoredType::kU8, at::kByte},
                                                                                 {StoredType::kI8, at::kChar},
                                                                                 {StoredType::kI16, at::kShort},
                                                                                 {StoredType::kF16, at::kHalf},
                                                                                 {StoredType::kBF16, at::kBFloat16},
                                                                                 {StoredType::kI32, at::kInt},
                                                                                 {StoredType::kF32, at::kFloat},
                                                                                 {StoredType::kF64, at::kDouble},
                                                                                 {StoredType::kI64, at::kLong}}};

/// A tensor over the file's own bytes if they are aligned, else over a copy. Bools are read as bytes, because a file
/// may hold values that no C++ bool has.
at::Tensor borrow(const StoredView& view) {
  const auto type = view.type == StoredType::kBool ? at::kByte : scalar_type(view.type);
  const size_t width = bytes_of(view.type);
  if (elements_of(view.shape, view.type) == 0) return at::empty(view.shape, type);
  if (reinterpret_cast<uintptr_t>(view.bytes.data()) % width == 0) {
    auto* data = const_cast<std::byte*>(view.bytes.data());  // NOLINT: LibTorch has no tensor over const memory
    return view.strides.empty() ? at::from_blob(data, view.shape, type)
                                : at::from_blob(data, view.shape, view.strides, type);
  }
  at::Tensor copy = at::empty({static_cast<int64_t>(view.bytes.size() / width)}, type);
  std::memcpy(copy.data_ptr(), view.bytes.data(), view.bytes.size());
  return view.strides.empty() ? copy.view(view.shape) : copy.as_strided(view.shape, view.strides);
}

}  // namespace

at::ScalarType scalar_type(StoredType type) { return kTensorTypes.at(static_cast<size_t>(type)).second; }

std::optional<StoredType> stored_type(at::ScalarType type) {
  for (const auto& [stored, scalar] : kTensorTypes) {
    if (scalar == type) return stored;
  }
  return std::nullopt;
}

at::Tensor copy_of(const StoredView& view) {
  at::Tensor out = at::empty(view.shape, scalar_type(view.type));
  copy_into(view, out);
  return out;
}

void copy_into(const StoredView& view, at::Tensor destination) {
  const at::NoGradGuard no_grad;
  check(destination.sizes() == at::IntArrayRef(view.shape),
        fmt::format("a stored tensor of shape {} does not fit in one of shape {}", shape_text(view.shape),
                    shape_text(destination.sizes().vec())));
  check(!at::isFloatingType(scalar_type(view.type)) || destination.is_floating_point(),
        fmt::format("stored {} would lose its fractions", name_of(view.type)));
  const at::Tensor source = borrow(view);
  destination.copy_(view.type == StoredType::kBool ? source.ne(0) : source);
}

bool all_finite(const at::Tensor& tensor) {
  if (!tensor.is_floating_point() || tensor.numel() == 0) return true;
  const at::NoGradGuard no_grad;
  // A NaN or infinity makes the sum non-finite, so a finite sum needs no second look; an overflow does.
  const auto type = tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  if (std::isfinite(tensor.sum(type).item<double>())) return true;
  return at::isfinite(tensor).all().item<bool>();
}

std::optional<std::string> first_non_finite(std::span<const NamedTensor> tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (!all_finite(tensor)) return name;
  }
  return std::nullopt;
}

}  // namespace chorus::inline tensor
