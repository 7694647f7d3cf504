#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace chorus::inline fuzz {

/// Decisions from the bytes of a fuzzer: the same bytes, the same decisions. Zeros once they are used up.
class Dice {
 public:
  Dice(const std::uint8_t* bytes, std::size_t size) : bytes_(bytes), left_(size) {}

  bool over() const { return left_ == 0; }
  std::uint8_t byte() {
    if (left_ == 0) return 0;
    --left_;
    return *bytes_++;
  }
  /// Below `count`, which is at most 65,536.
  std::size_t below(std::size_t count) {
    const std::size_t value = count > 256 ? byte() + 256U * byte() : byte();
    return count == 0 ? 0 : value % count;
  }
  /// At most so many of the next bytes, as they are.
  std::string text(std::size_t most) {
    std::string result;
    for (std::size_t i = below(most + 1); i > 0; --i) result += static_cast<char>(byte());
    return result;
  }

 private:
  const std::uint8_t* bytes_;
  std::size_t left_;
};

}  // namespace chorus::inline fuzz
