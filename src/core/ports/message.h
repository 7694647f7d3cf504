#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace chorus::inline ports {

/// The content of a request or a reply: named tensors, numbers and texts. An algorithm adds a field by naming it;
/// nothing else needs to know it. The wire format is proto/message.proto.
///
///     Message reply;
///     reply.tensors["update"] = delta;
///     reply.numbers["examples"] = 113;
///
/// A Message may come from a peer, so the getters check and throw DataError naming the field.
struct Message {
  std::map<std::string, at::Tensor, std::less<>> tensors = {};
  std::map<std::string, double, std::less<>> numbers = {};
  std::map<std::string, std::string, std::less<>> texts = {};

  double number(std::string_view name) const;
  double number(std::string_view name, double fallback) const;
  const std::string& text(std::string_view name) const;
  bool has_tensor(std::string_view name) const { return tensors.find(name) != tensors.end(); }
  /// A float32 vector of `size` elements.
  const at::Tensor& vector(std::string_view name, std::int64_t size) const;
  /// The tensor of that name, of any type and shape.
  const at::Tensor& tensor(std::string_view name) const;

  /// Bytes of the tensors, numbers and texts, without framing.
  std::uint64_t bytes() const;
};

}  // namespace chorus::inline ports
