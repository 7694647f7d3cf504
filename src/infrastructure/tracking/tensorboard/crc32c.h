#pragma once

#include <cstdint>
#include <string_view>

namespace chorus::inline tracking_tensorboard {

/// CRC-32C (Castagnoli; RFC 3720, appendix B.4). Hand-written because zlib has only the other polynomial.
std::uint32_t crc32c(std::string_view bytes);

/// As in TensorFlow's record files: rotated right by 15 bits, plus 0xa282ead8.
std::uint32_t masked_crc32c(std::string_view bytes);

}  // namespace chorus::inline tracking_tensorboard
