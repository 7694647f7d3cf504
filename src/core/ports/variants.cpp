#include "core/ports/variants.h"

#include <ATen/ATen.h>

#include <cmath>

#include "core/base/error.h"

namespace chorus::inline ports {

bool Variants::is_whole(const Variant& variant) const {
  const Variant all = whole();
  return (variant.depth < 0 || variant.depth == all.depth) && (variant.width < 0 || variant.width == all.width);
}

at::Tensor Variants::take(const Variant& variant, const at::Tensor& whole) const {
  if (is_whole(variant)) return whole;
  return whole.index_select(0, places(variant).to(whole.device()));
}

void Variants::put(const Variant& variant, const at::Tensor& part, const at::Tensor& whole) const {
  if (is_whole(variant)) {
    whole.copy_(part);
    return;
  }
  whole.index_copy_(0, places(variant).to(whole.device()), part.to(whole.device()));
}

void write_variant(const Variant& variant, Message& body) {
  if (variant.depth >= 0) body.numbers["depth"] = variant.depth;
  if (variant.width >= 0) body.numbers["width"] = variant.width;
}

Variant read_variant(const Message& body) {
  const auto read = [&](const char* name) {
    const double value = body.number(name, -1);
    if (!(value >= -1) || value > 1e6 || value != std::floor(value)) {
      throw DataError(std::string("the request's ") + name + " is not a whole number");
    }
    return static_cast<int>(value);
  };
  return {read("depth"), read("width")};
}

}  // namespace chorus::inline ports
