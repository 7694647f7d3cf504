#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace chorus::inline transport_mailbox {

inline constexpr std::uint32_t kPostVersion = 3;

/// Version 3 of what a letter of this folder's transports says: 37 bytes, little-endian, then 8 bytes of a checksum of
/// the letter, then the data of a chunk or the reason of a kBye. The checksum finds damage, not forgery: that is the
/// business of TLS. Every version has these fields, so that ends of two versions can tell each other. The highest bit
/// of the kind says that the checksum leaves out the data.
///
/// A frame of one chunk is sent at once. Of a longer one a client sends the first chunk, and the rest when the server
/// has room for it (kGo).
struct Post {
  enum class Kind : std::uint8_t { kOpen = 1, kOpened, kChunk, kAck, kBye, kGo };
  Kind kind = Kind::kOpen;
  std::uint64_t session = 0;   ///< random, the client's choice
  std::uint64_t sequence = 0;  ///< of the frame: 1, 2, 3, ...; of kAck: the last that was read; of kBye: a Verdict
  std::uint64_t size = 0;      ///< of the frame
  std::uint64_t offset = 0;    ///< of the chunk
  std::uint32_t version = kPostVersion;
  bool checks_data = true;
};
/// What a kBye means: the session is over and the client may join anew, it is of no use to try again, or it may try
/// again later.
enum class Verdict : std::uint64_t { kOver, kRefused, kLater };
inline constexpr std::size_t kPostBytes = 45;
inline constexpr std::size_t kMostLetter = (4U << 20U) + kPostBytes;  ///< bytes of a letter, of any configuration
inline constexpr std::uint64_t kEverySession = 0;  ///< of a kBye to all clients of a server that has vanished

std::string encode_post(const Post& post, std::string_view data = {});
std::string encode_bye(std::uint64_t session, Verdict verdict, std::string_view reason = {});
/// A failure for bytes that are no letter or were damaged. `data` is what follows. Of a letter of another version only
/// `version` and `session` mean anything.
Result<Post> decode_post(std::string_view bytes, std::string_view& data);
/// "the client speaks version 2 of letters and the server version 3; install the same version of Chorus on both"
std::string other_version(std::uint32_t client, std::uint32_t server);

/// Chunks become frames again, each exactly once, although letters may come twice.
class FrameGatherer {
 public:
  explicit FrameGatherer(std::size_t limit) : limit_(limit) {}
  /// The whole frame with its last chunk. A failure for a gap or a frame over the limit.
  Result<std::optional<std::string>> add(const Post& post, std::string_view data);
  /// Whether a chunk is the first of the next frame, or goes on with the one of which a part is here.
  bool begins(const Post& post) const { return !partial_ && post.sequence == whole_ + 1; }
  bool continues(const Post& post) const {
    return partial_ && post.sequence == whole_ + 1 && post.offset >= frame_.size();
  }
  bool partial() const { return partial_; }
  std::uint64_t next() const { return whole_ + 1; }  ///< number of the frame that is being gathered or comes next

 private:
  std::size_t limit_;
  std::uint64_t whole_ = 0;  // the last frame that is complete
  std::uint64_t size_ = 0;
  bool partial_ = false;
  std::string frame_;
};

}  // namespace chorus::inline transport_mailbox
