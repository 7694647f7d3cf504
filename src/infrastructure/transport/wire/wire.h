#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/result.h"
#include "core/ports/federation.h"
#include "core/ports/frame_bytes.h"

namespace chorus::inline transport_wire {

/// Frames as bytes: proto/message.proto. Tensors travel in the type they have, row by row.
inline constexpr std::uint32_t kWireVersion = 5;

/// Who a client process hosts.
struct HelloFrame {
  std::vector<RosterEntry> clients;
};
/// The shared part of a request; `request.own` does not travel with it.
struct RequestFrame {
  std::uint64_t number = 0;
  Request request;
};
struct CohortFrame {
  struct Member {
    ClientId client = 0;
    std::size_t slot = 0;
    Message own = {};
    std::uint64_t kept = 0;  ///< number of the request whose reply's state it builds on; 0: it has none yet
  };
  std::uint64_t number = 0;
  std::vector<Member> members;
};
struct ReplyFrame {
  std::uint64_t number = 0;
  Reply reply;
  bool keeps = false;  ///< the client has a state that goes with it
};
struct AcceptFrame {
  std::uint64_t number = 0;
  std::size_t slot = 0;
};
struct CancelFrame {
  std::uint64_t number = 0;
};
/// Sent back by the client once everything before it has been handled.
struct SyncFrame {
  std::uint64_t number = 0;
};
struct EndSessionFrame {
  std::uint64_t session = 0;
};
/// What is not about requests, either way; the topics are the business of those who send them.
struct ControlFrame {
  std::string topic;
  std::string text = {};
  std::string data = {};
};
using Frame = std::variant<HelloFrame, RequestFrame, CohortFrame, ReplyFrame, AcceptFrame, CancelFrame, EndSessionFrame,
                           SyncFrame, ControlFrame>;

/// WorldError when it is over 2 GiB.
std::string encode_frame(const Frame& frame);
/// The same bytes without a copy of the large tensors that only `frame` holds; nobody may change those any more.
FrameBytes encode_parts(const Frame& frame);

/// Everything in the bytes is checked: a shape that does not fit its data, an unknown type, another version, bytes that
/// are no frame. Tensors are on the CPU and own their memory; with an `owner` of the bytes, large ones are views of
/// them that keep it alive.
Result<Frame> decode_frame(std::string_view bytes, std::shared_ptr<const void> owner = nullptr);
/// The same for bytes that nobody else needs.
Result<Frame> decode_frame(std::shared_ptr<const std::string> bytes);

}  // namespace chorus::inline transport_wire
