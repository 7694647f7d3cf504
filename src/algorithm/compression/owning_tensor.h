#pragma once

#include <ATen/ATen.h>

#include <utility>
#include <vector>

namespace chorus {

/// A tensor on the CPU that owns the vector's numbers; nothing is copied.
template <typename T>
at::Tensor tensor_of(std::vector<T> values, at::IntArrayRef shape, at::ScalarType type) {
  auto* owner = new std::vector<T>(std::move(values));
  return at::from_blob(
      owner->data(), shape, [owner](void*) { delete owner; }, type);
}

}  // namespace chorus
