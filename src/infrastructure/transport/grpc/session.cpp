#include "infrastructure/transport/grpc/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace chorus::inline transport_grpc {
namespace {

constexpr std::size_t kReserveAtOnce = 4U << 20U;  // bytes, while only the first chunk of a frame has arrived

Failure malformed(std::string why) { return {Failure::Kind::kMalformed, std::move(why)}; }

}  // namespace

void Outbox::push(std::shared_ptr<const std::string> frame) {
  bytes_ += frame->size();
  frames_.push_back(std::move(frame));
}

std::optional<Chunk> Outbox::next() {
  if (written()) return std::nullopt;
  const auto& frame = frames_[next_];
  const Chunk chunk{frame, first_ + next_, offset_, std::min(chunk_, frame->size() - offset_)};
  offset_ += chunk.size;
  if (offset_ == frame->size()) {
    ++next_;
    offset_ = 0;
  }
  return chunk;
}

bool Outbox::acknowledge(std::uint64_t sequence) {
  if (sequence >= first_ + next_) return false;
  for (; first_ <= sequence; ++first_, --next_) {
    bytes_ -= frames_.front()->size();
    frames_.pop_front();
  }
  return true;
}

bool Outbox::restart(std::uint64_t received) {
  if (!acknowledge(received)) return false;
  next_ = 0;
  offset_ = 0;
  return true;
}

Result<std::optional<std::string>> Assembler::add(const ChunkHeader& header, std::string_view data) {
  using Frame = std::optional<std::string>;
  if (header.sequence <= received_) return Frame();
  if (header.sequence != received_ + 1) {
    return malformed(fmt::format("frame {} came after frame {}", header.sequence, received_));
  }
  if (header.size > limit_) {
    return malformed(fmt::format("a frame of {} bytes is over the limit of {}", header.size, limit_));
  }
  if (header.offset != frame_.size() || (partial_ && header.size != size_)) {
    return malformed(fmt::format("a chunk at {} of {} bytes does not continue its frame at {}", header.offset,
                                 header.size, frame_.size()));
  }
  if (data.size() > header.size - header.offset || (data.empty() && header.size > 0)) {
    return malformed(fmt::format("a chunk of {} bytes does not fit a frame of {}", data.size(), header.size));
  }
  if (!partial_) {
    partial_ = true;
    size_ = header.size;
    frame_.reserve(std::min<std::size_t>(header.size, kReserveAtOnce));
  } else if (frame_.size() >= kReserveAtOnce && frame_.capacity() < size_) {
    frame_.reserve(size_);  // enough has arrived to trust the announced size; one allocation is cheaper than doubling
  }
  frame_.append(data);
  if (frame_.size() < size_) return Frame();
  received_ = header.sequence;
  partial_ = false;
  return Frame(std::exchange(frame_, std::string()));
}

void Assembler::restart() {
  partial_ = false;
  frame_ = std::string();
}

}  // namespace chorus::inline transport_grpc
