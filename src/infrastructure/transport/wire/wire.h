#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/ports/federation.h"

namespace chorus {

/// Requests and replies as bytes: proto/message.proto. Tensors travel in the type they have, row by row.
inline constexpr std::uint32_t kWireVersion = 1;

std::string encode_request(const Request& request);
std::string encode_reply(const Reply& reply);

/// Everything in the bytes is checked: a shape that does not fit its data, an unknown type, another version, bytes that
/// are no message. Tensors are on the CPU and own their memory.
Result<Request> decode_request(std::string_view bytes);
Result<Reply> decode_reply(std::string_view bytes);

}  // namespace chorus
