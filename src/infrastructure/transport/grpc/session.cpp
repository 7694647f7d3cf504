#include "infrastructure/transport/grpc/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "core/base/spare_buffer.h"
#include "infrastructure/transport/pace/frame_limit.h"

namespace chorus::inline transport_grpc {
namespace {

constexpr std::size_t kReserveAtOnce = 4U << 20U;  // bytes, while only the first chunk of a frame has arrived

Failure malformed(std::string why) { return {Failure::Kind::kMalformed, std::move(why)}; }

}  // namespace

std::uint64_t new_epoch() {
  std::random_device entropy;
  return (static_cast<std::uint64_t>(entropy()) << 32U) | entropy() | 1U;
}

void Outbox::push(std::shared_ptr<const FrameBytes> frame) {
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

Result<std::optional<ArrivedFrame>> Assembler::add(const ChunkHeader& header,
                                                   std::span<const std::string_view> pieces) {
  using Frame = std::optional<ArrivedFrame>;
  if (header.sequence <= received_) return Frame();
  if (header.sequence != received_ + 1) {
    return malformed(fmt::format("frame {} came after frame {}", header.sequence, received_));
  }
  if (header.size > limit_) return malformed(over_limit(header.size, limit_));
  if (header.offset != arrived() || (partial_ && header.size != size_)) {
    return malformed(fmt::format("a chunk at {} of {} bytes does not continue its frame at {}", header.offset,
                                 header.size, arrived()));
  }
  std::size_t added = 0;
  for (const std::string_view piece : pieces) added += piece.size();
  if (added > header.size - header.offset || (added == 0 && header.size > 0)) {
    return malformed(fmt::format("a chunk of {} bytes does not fit a frame of {}", added, header.size));
  }
  partial_ = true;
  size_ = header.size;
  if (auto failure = make_room()) return *failure;
  if (file_ && !file_->append(pieces)) {
    return Failure{Failure::Kind::kIo, "a frame cannot be written to " + spool_.string()};
  }
  for (const std::string_view piece : pieces) {
    if (!file_) frame_.append(piece);
  }
  if (arrived() < size_) return Frame();
  received_ = header.sequence;
  partial_ = false;
  return Frame({std::exchange(frame_, std::string()), std::exchange(file_, nullptr)});
}

// Little at first. Once some MiB have arrived the announced size is believed, and one allocation is cheaper than many.
std::optional<Failure> Assembler::make_room() {
  if (file_) return std::nullopt;
  if (frame_.size() < kReserveAtOnce) {
    frame_.reserve(std::min<std::size_t>(size_, kReserveAtOnce));
    return std::nullopt;
  }
  if (spool_.empty() || size_ <= kLargestInMemory) {
    if (frame_.capacity() < size_) {
      std::string room = take_spare_buffer(size_);
      room += frame_;
      frame_ = std::move(room);
    }
    return std::nullopt;
  }
  std::string trouble;
  file_ = FileMemory::create(spool_, size_, trouble);
  if (!file_) return Failure{Failure::Kind::kIo, "there is no room for a frame: " + trouble};
  if (!file_->append(frame_)) return Failure{Failure::Kind::kIo, "a frame cannot be written to " + spool_.string()};
  frame_ = std::string();
  return std::nullopt;
}

void Assembler::restart() {
  partial_ = false;
  frame_ = std::string();
  file_.reset();
}

}  // namespace chorus::inline transport_grpc
