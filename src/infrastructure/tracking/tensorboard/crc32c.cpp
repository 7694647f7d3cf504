#include "infrastructure/tracking/tensorboard/crc32c.h"

#include <array>

namespace chorus::inline tracking_tensorboard {
namespace {

constexpr std::array<std::uint32_t, 256> table() {
  std::array<std::uint32_t, 256> values{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82f63b78U : 0U);
    values[byte] = value;
  }
  return values;
}

constexpr std::array<std::uint32_t, 256> kTable = table();

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t value = 0xffffffffU;
  for (const char byte : bytes) value = (value >> 8) ^ kTable[(value ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~value;
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  const std::uint32_t value = crc32c(bytes);
  return ((value >> 15) | (value << 17)) + 0xa282ead8U;
}

}  // namespace chorus::inline tracking_tensorboard
