#pragma once

#include <ATen/ATen.h>

#include <utility>
#include <vector>

namespace chorus::inline compression {

/// A tensor on the CPU that owns the vector's numbers; nothing is copied.
template <typename Vector>
at::Tensor tensor_of(Vector values, at::IntArrayRef shape, at::ScalarType type) {
  auto* owner = new Vector(std::move(values));
  return at::from_blob(
      owner->data(), shape, [owner](void*) { delete owner; }, type);
}

}  // namespace chorus::inline compression
