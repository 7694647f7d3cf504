#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/files/file_memory.h"
#include "core/ports/frame_bytes.h"

namespace chorus::inline transport_grpc {

/// An outgoing chunk: a part of a frame that several peers may share.
struct Chunk {
  std::shared_ptr<const FrameBytes> frame;
  std::uint64_t sequence = 0;
  std::size_t offset = 0, size = 0;
};

/// The outgoing half of a session. It keeps a frame until the far end acknowledges it, so a new connection can resume
/// where the old one was cut. Sequence numbers are 1, 2, 3, ...
class Outbox {
 public:
  explicit Outbox(std::size_t chunk) : chunk_(chunk) {}

  void push(std::shared_ptr<const FrameBytes> frame);
  /// The next chunk to write; nothing when all are written.
  std::optional<Chunk> next();
  /// The far end has every frame up to this one. False: it claims a frame that was never sent.
  [[nodiscard]] bool acknowledge(std::uint64_t sequence);
  /// A new connection: acknowledges, then restarts with the first missing frame.
  [[nodiscard]] bool restart(std::uint64_t received);

  std::size_t frames() const { return frames_.size(); }  ///< not acknowledged
  std::uint64_t first() const { return first_; }         ///< sequence number of the first of these
  std::size_t bytes() const { return bytes_; }
  bool written() const { return next_ == frames_.size(); }

 private:
  std::size_t chunk_;
  std::deque<std::shared_ptr<const FrameBytes>> frames_;
  std::uint64_t first_ = 1;  // sequence number of frames_[0]
  std::size_t next_ = 0;     // index of the frame that is being written
  std::size_t offset_ = 0;   // within that frame
  std::size_t bytes_ = 0;
};

/// The position of a received chunk, as its sender states it.
struct ChunkHeader {
  std::uint64_t sequence = 0, size = 0, offset = 0;
};

/// Decides when arrived frames are acknowledged: with the next chunk that goes back, or with a packet of its own once
/// they are many or large, or an end cannot wait longer.
class Receipts {
 public:
  void add(std::size_t bytes) {
    if (frames_++ == 0) since_ = std::chrono::steady_clock::now();
    bytes_ += bytes;
  }
  /// A frame came again: its sender does not know that it has arrived.
  void demand() { frames_ = std::max(frames_, kFrames); }
  void clear() { *this = {}; }
  bool due() const { return frames_ >= kFrames || bytes_ >= kBytes; }
  /// Whether something has waited for so long.
  bool due_after(std::chrono::steady_clock::duration pause) const {
    return frames_ > 0 && std::chrono::steady_clock::now() - since_ > pause;
  }

 private:
  static constexpr std::size_t kFrames = 4, kBytes = 64U << 10U;
  std::size_t frames_ = 0, bytes_ = 0;
  std::chrono::steady_clock::time_point since_ = {};
};

/// Of a server's process; never 0.
std::uint64_t new_epoch();

/// Frames of more bytes lie in a temporary file, where an assembler has a folder for them.
inline constexpr std::size_t kLargestInMemory = 64U << 20U;

/// A frame that has arrived whole.
struct ArrivedFrame {
  std::string bytes = {};
  std::shared_ptr<const FileMemory> file = {};  ///< of a large one; `bytes` is empty then
  std::size_t size() const { return file ? file->written() : bytes.size(); }
};

/// The incoming half of a session: reassembles chunks into frames, each exactly once. Nothing is allocated before the
/// announced size passes the limit, and memory grows with the bytes received.
class Assembler {
 public:
  /// `spool`: the folder of large frames; empty: they are in memory, too.
  explicit Assembler(std::size_t limit, std::filesystem::path spool = {}) : limit_(limit), spool_(std::move(spool)) {}

  /// The frame once its last chunk arrives, nothing before. Chunks of earlier frames are ignored; a gap, an overlap, or
  /// a frame over the limit is a failure, and so is a full disk (kIo).
  Result<std::optional<ArrivedFrame>> add(const ChunkHeader& header, std::string_view data) {
    return add(header, std::span(&data, 1));
  }
  /// The same for a chunk in pieces.
  Result<std::optional<ArrivedFrame>> add(const ChunkHeader& header, std::span<const std::string_view> pieces);
  /// A new connection: the incomplete frame will be sent again from its start.
  void restart();

  std::uint64_t received() const { return received_; }  ///< the last complete frame
  bool partial() const { return partial_; }

 private:
  std::size_t arrived() const { return file_ ? file_->written() : frame_.size(); }
  std::optional<Failure> make_room();

  std::size_t limit_;
  std::filesystem::path spool_;
  std::uint64_t received_ = 0;
  bool partial_ = false;
  std::uint64_t size_ = 0;  // of the frame that is being assembled
  std::string frame_;
  std::shared_ptr<FileMemory> file_;
};

}  // namespace chorus::inline transport_grpc
