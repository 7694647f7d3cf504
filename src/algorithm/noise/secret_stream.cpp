#include "algorithm/noise/secret_stream.h"

#include <sodium.h>

#include "core/base/error.h"

namespace chorus::inline noise {

static_assert(crypto_stream_chacha20_KEYBYTES == 32);

SecretStream::SecretStream() : key_{} {
  if (sodium_init() < 0) throw WorldError("libsodium cannot start, so there is no secure noise; check the system");
  randombytes_buf(key_.data(), key_.size());
}

SecretStream::SecretStream(const Key& key) : key_(key) { check(sodium_init() >= 0, "libsodium cannot start"); }

SecretStream::~SecretStream() {
  sodium_memzero(key_.data(), key_.size());
  sodium_memzero(block_.data(), sizeof block_);
}

void SecretStream::refill() {
  // The nonce is fixed: the block counter alone never repeats under one key.
  constexpr std::array<unsigned char, crypto_stream_chacha20_NONCEBYTES> kNonce{};
  auto* bytes = reinterpret_cast<unsigned char*>(block_.data());
  sodium_memzero(bytes, sizeof block_);
  crypto_stream_chacha20_xor_ic(bytes, bytes, sizeof block_, kNonce.data(), blocks_, key_.data());
  blocks_ += sizeof block_ / 64;
  used_ = 0;
}

std::uint64_t SecretStream::below(std::uint64_t n) {
  // Lemire 2019
  Wide product = static_cast<Wide>(next_u64()) * n;
  if (static_cast<std::uint64_t>(product) < n) {
    const std::uint64_t least = (0 - n) % n;
    while (static_cast<std::uint64_t>(product) < least) product = static_cast<Wide>(next_u64()) * n;
  }
  return static_cast<std::uint64_t>(product >> 64);
}

SecretStream::Wide SecretStream::below(Wide n) {
  if (n >> 64 == 0) return below(static_cast<std::uint64_t>(n));
  int zeros = 0;
  while ((n << zeros) >> 127 == 0) ++zeros;
  for (;;) {
    const Wide high = next_u64();
    const Wide x = ((high << 64) | next_u64()) >> zeros;
    if (x < n) return x;
  }
}

double SecretStream::uniform() { return (static_cast<double>(next_u64() >> 12) + 0.5) * 0x1.0p-52; }

}  // namespace chorus::inline noise
