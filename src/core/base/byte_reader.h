#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

namespace chorus::inline base {

/// Reads little-endian values and pieces from the front of untrusted bytes. Once something is missing, `ok()` is false,
/// values are 0 and pieces are empty, so a parser can read a whole record and check once.
///
///     ByteReader reader(bytes);
///     const auto length = reader.take<uint16_t>();
///     const std::string_view name = reader.text(length);
///     if (!reader.ok()) throw DataError(...);
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  bool ok() const { return ok_; }
  std::size_t left() const { return rest_.size(); }

  template <typename T>
  T take() {
    T value{};
    const auto piece = bytes(sizeof(T));
    if (!piece.empty()) std::memcpy(&value, piece.data(), sizeof(T));
    return value;
  }

  std::span<const std::byte> bytes(std::size_t count) {
    if (count > rest_.size()) {
      ok_ = false;
      rest_ = {};
    }
    const auto piece = rest_.first(ok_ ? count : 0);
    rest_ = rest_.subspan(piece.size());
    return piece;
  }

  std::string_view text(std::size_t count) {
    const auto piece = bytes(count);
    return {reinterpret_cast<const char*>(piece.data()), piece.size()};
  }

  /// Up to the next line feed, which is consumed but not returned.
  std::string_view line() {
    const std::string_view all(reinterpret_cast<const char*>(rest_.data()), rest_.size());
    const std::size_t end = all.find('\n');
    if (end == std::string_view::npos) {
      ok_ = false;
      rest_ = {};
      return {};
    }
    rest_ = rest_.subspan(end + 1);
    return all.substr(0, end);
  }

 private:
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

}  // namespace chorus::inline base
