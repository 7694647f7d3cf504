#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace chorus::inline transport_mailbox {

/// What a letter of this folder's transports says: 37 bytes, little-endian, then 8 bytes of a checksum of the letter,
/// then the data of a chunk. The checksum finds damage, not forgery: that is the business of TLS.
struct Post {
  enum class Kind : std::uint8_t { kOpen = 1, kOpened, kChunk, kAck, kBye };
  Kind kind = Kind::kOpen;
  std::uint64_t session = 0;   ///< random, the client's choice
  std::uint64_t sequence = 0;  ///< of the frame: 1, 2, 3, ...; of kAck: the last frame that was read
  std::uint64_t size = 0;      ///< of the frame
  std::uint64_t offset = 0;    ///< of the chunk
};
inline constexpr std::uint32_t kPostVersion = 1;
inline constexpr std::size_t kPostBytes = 45;
inline constexpr std::uint64_t kEverySession = 0;  ///< of a kBye to all clients of a server that has vanished

std::string encode_post(const Post& post, std::string_view data = {});
/// A failure for bytes that are no letter, were damaged, or are of another version. `data` is what follows.
Result<Post> decode_post(std::string_view bytes, std::string_view& data);

/// Chunks become frames again, each exactly once, although letters may come twice.
class FrameGatherer {
 public:
  explicit FrameGatherer(std::size_t limit) : limit_(limit) {}
  /// The whole frame with its last chunk. A failure for a gap or a frame over the limit.
  Result<std::optional<std::string>> add(const Post& post, std::string_view data);

 private:
  std::size_t limit_;
  std::uint64_t whole_ = 0;  // the last frame that is complete
  std::uint64_t size_ = 0;
  bool partial_ = false;
  std::string frame_;
};

}  // namespace chorus::inline transport_mailbox
