#include "core/base/fingerprint.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace chorus::inline base {
namespace {

constexpr std::uint64_t kC1 = 0x87c37b91114253d5ULL;
constexpr std::uint64_t kC2 = 0x4cf5ad432745937fULL;

std::uint64_t finalise(std::uint64_t k) {
  k ^= k >> 33;
  k *= 0xff51afd7ed558ccdULL;
  k ^= k >> 33;
  k *= 0xc4ceb9fe1a85ec53ULL;
  return k ^ (k >> 33);
}

std::uint64_t load(const char* bytes, std::size_t count) {
  std::uint64_t value = 0;
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(&value, bytes, count);
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
    }
  }
  return value;
}

}  // namespace

std::string Fingerprint::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

Fingerprint fingerprint(std::string_view bytes, Fingerprint seed) {
  std::uint64_t h1 = seed.high;
  std::uint64_t h2 = seed.low;
  const std::size_t blocks = bytes.size() / 16;
  for (std::size_t i = 0; i < blocks; ++i) {
    h1 ^= std::rotl(load(bytes.data() + 16 * i, 8) * kC1, 31) * kC2;
    h1 = (std::rotl(h1, 27) + h2) * 5 + 0x52dce729;
    h2 ^= std::rotl(load(bytes.data() + 16 * i + 8, 8) * kC2, 33) * kC1;
    h2 = (std::rotl(h2, 31) + h1) * 5 + 0x38495ab5;
  }
  const char* tail = bytes.data() + 16 * blocks;
  const std::size_t rest = bytes.size() % 16;
  if (rest > 8) h2 ^= std::rotl(load(tail + 8, rest - 8) * kC2, 33) * kC1;
  if (rest > 0) h1 ^= std::rotl(load(tail, rest < 8 ? rest : 8) * kC1, 31) * kC2;

  h1 ^= bytes.size();
  h2 ^= bytes.size();
  h1 += h2;
  h2 += h1;
  h1 = finalise(h1);
  h2 = finalise(h2);
  h1 += h2;
  h2 += h1;
  return {h1, h2};
}

}  // namespace chorus::inline base
