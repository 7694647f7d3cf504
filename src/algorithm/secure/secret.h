#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace chorus::inline secure {

using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;

/// Overwrites memory in a way that compilers do not optimize away.
void wipe(void* memory, std::size_t size);
/// Constant time for a given size. Views of different sizes differ.
bool equal_secrets(ByteView a, ByteView b);

/// N bytes that must not outlive their use: wiped on destruction and when moved from, never copied implicitly, and not
/// printable.
template <std::size_t N>
class Secret {
 public:
  Secret() = default;
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;
  Secret(Secret&& other) noexcept : bytes_(other.bytes_) { other.clear(); }
  Secret& operator=(Secret&& other) noexcept {
    if (this != &other) {
      bytes_ = other.bytes_;
      other.clear();
    }
    return *this;
  }
  ~Secret() { clear(); }

  std::byte* data() { return bytes_.data(); }
  const std::byte* data() const { return bytes_.data(); }
  static constexpr std::size_t size() { return N; }
  ByteView view() const { return bytes_; }
  void clear() { wipe(bytes_.data(), N); }

  friend bool operator==(const Secret& a, const Secret& b) { return equal_secrets(a.view(), b.view()); }

 private:
  std::array<std::byte, N> bytes_{};
};

/// A secret of any length, wiped on destruction.
class SecretBytes {
 public:
  SecretBytes() = default;
  explicit SecretBytes(std::size_t size) : bytes_(size) {}
  SecretBytes(const SecretBytes&) = delete;
  SecretBytes& operator=(const SecretBytes&) = delete;
  SecretBytes(SecretBytes&& other) noexcept = default;
  SecretBytes& operator=(SecretBytes&& other) noexcept {
    clear();
    bytes_ = std::move(other.bytes_);
    return *this;
  }
  ~SecretBytes() { clear(); }

  std::byte* data() { return bytes_.data(); }
  std::size_t size() const { return bytes_.size(); }
  ByteView view() const { return bytes_; }
  void clear() {
    wipe(bytes_.data(), bytes_.size());
    bytes_.clear();
  }

 private:
  Bytes bytes_;
};

}  // namespace chorus::inline secure
