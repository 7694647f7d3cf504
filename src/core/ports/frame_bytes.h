#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace chorus::inline ports {

/// The bytes of one message in parts, for a transport. Large values stay where they are: a model of 440 MB is sent
/// without a copy of it. Nobody may change them any more.
///
///     FrameBytes frame("hello");
///     frame.add(bytes_of_a_tensor, its_owner);
class FrameBytes {
 public:
  template <std::convertible_to<std::string> Text>
  FrameBytes(Text&& whole) {  // NOLINT(google-explicit-constructor): any text is a message
    add(std::string(std::forward<Text>(whole)));
  }

  void add(std::string bytes);
  /// Bytes that `owner` keeps alive.
  void add(std::string_view bytes, std::shared_ptr<const void> owner);

  std::size_t size() const { return size_; }
  /// So many bytes from `offset`, in pieces.
  std::vector<std::string_view> parts(std::size_t offset, std::size_t bytes) const;
  std::vector<std::string_view> parts() const { return parts(0, size_); }
  /// Copies what begins at `offset`; so much must be there.
  void read(std::size_t offset, std::span<char> to) const;
  std::string flat() const;

 private:
  struct Part {
    std::string_view bytes;
    std::shared_ptr<const void> owner;
  };
  std::vector<Part> parts_;
  std::size_t size_ = 0;
};

}  // namespace chorus::inline ports
