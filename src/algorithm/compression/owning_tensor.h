#pragma once

#include <ATen/ATen.h>

#include <utility>
#include <vector>

namespace chorus::inline compression {

/// A CPU tensor that owns the vector's elements, without a copy.
template <typename Vector>
at::Tensor tensor_of(Vector values, at::IntArrayRef shape, at::ScalarType type) {
  if (values.empty()) return at::empty(shape, type);  // from_blob would never call the deleter of no data
  auto* owner = new Vector(std::move(values));
  return at::from_blob(
      owner->data(), shape, [owner](void*) { delete owner; }, type);
}

}  // namespace chorus::inline compression
