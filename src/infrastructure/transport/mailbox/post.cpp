#include "infrastructure/transport/mailbox/post.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/fingerprint.h"
#include "infrastructure/transport/pace/frame_limit.h"

namespace chorus::inline transport_mailbox {
namespace {

constexpr std::uint8_t kHeadOnly = 0x80;      // in the byte of the kind: the checksum leaves out the data
constexpr std::size_t kAddress = 16;          // bytes that a mailbox may append
constexpr std::size_t kBelieved = 4U << 20U;  // bytes reserved for a frame of which only the first chunk is here

Failure bad_letter(std::string why) { return {Failure::Kind::kMalformed, std::move(why)}; }

template <typename T>
void put_number(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>((value >> (8 * i)) & 0xffU));
}

template <typename T>
T take_number(std::string_view& in) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(static_cast<unsigned char>(in[i])) << (8 * i);
  in.remove_prefix(sizeof(T));
  return value;
}

std::uint64_t checksum_of(std::string_view head, std::string_view data, bool checks_data) {
  const Fingerprint of_head = fingerprint(head);
  return (checks_data ? fingerprint(data, of_head) : of_head).low;
}

}  // namespace

std::string encode_post(const Post& post, std::string_view data) {
  std::string bytes;
  bytes.reserve(kPostBytes + data.size() + kAddress);
  put_number(bytes, post.version);
  bytes.push_back(static_cast<char>(static_cast<std::uint8_t>(post.kind) | (post.checks_data ? 0 : kHeadOnly)));
  put_number(bytes, post.session);
  put_number(bytes, post.sequence);
  put_number(bytes, post.size);
  put_number(bytes, post.offset);
  put_number(bytes, checksum_of(bytes, data, post.checks_data));
  bytes.append(data);
  return bytes;
}

std::string encode_bye(std::uint64_t session, Verdict verdict, std::string_view reason) {
  return encode_post({Post::Kind::kBye, session, static_cast<std::uint64_t>(verdict)}, reason);
}

std::string other_version(std::uint32_t client, std::uint32_t server) {
  return fmt::format(
      "the client speaks version {} of letters and the server version {}; install the same version of Chorus on both",
      client, server);
}

Result<Post> decode_post(std::string_view bytes, std::string_view& data) {
  if (bytes.size() < kPostBytes) return bad_letter("a letter is too short");
  const std::string_view head = bytes.substr(0, kPostBytes - sizeof(std::uint64_t));
  const auto version = take_number<std::uint32_t>(bytes);
  const auto marked = static_cast<std::uint8_t>(bytes.front());
  const std::uint8_t kind = marked & ~kHeadOnly;
  bytes.remove_prefix(1);
  if (version == kPostVersion && (kind < 1 || kind > static_cast<std::uint8_t>(Post::Kind::kGo))) {
    return bad_letter("a letter of an unknown kind");
  }
  Post post{static_cast<Post::Kind>(kind)};
  post.version = version;
  post.checks_data = (marked & kHeadOnly) == 0;
  post.session = take_number<std::uint64_t>(bytes);
  post.sequence = take_number<std::uint64_t>(bytes);
  post.size = take_number<std::uint64_t>(bytes);
  post.offset = take_number<std::uint64_t>(bytes);
  if (take_number<std::uint64_t>(bytes) != checksum_of(head, bytes, post.checks_data))
    return bad_letter("a letter is damaged");
  data = bytes;
  return post;
}

Result<std::optional<std::string>> FrameGatherer::add(const Post& post, std::string_view data) {
  using Gathered = std::optional<std::string>;
  if (post.sequence <= whole_) return Gathered();  // came twice
  if (post.sequence != whole_ + 1) {
    return bad_letter(fmt::format("frame {} came after frame {}", post.sequence, whole_));
  }
  if (post.size > limit_) return bad_letter(over_limit(post.size, limit_));
  if (partial_ && post.offset < frame_.size()) return Gathered();  // came twice
  if (post.offset != frame_.size() || (partial_ && post.size != size_) || data.size() > post.size - post.offset ||
      (data.empty() && post.size > 0)) {
    return bad_letter("a chunk does not continue its frame");
  }
  if (!partial_) {
    partial_ = true;
    size_ = post.size;
    frame_.reserve(std::min<std::size_t>(size_, kBelieved));
  } else if (frame_.size() >= kBelieved && frame_.capacity() < size_) {
    frame_.reserve(size_);
  }
  frame_.append(data);
  if (frame_.size() < size_) return Gathered();
  whole_ = post.sequence;
  partial_ = false;
  return Gathered(std::exchange(frame_, std::string()));
}

}  // namespace chorus::inline transport_mailbox
