#pragma once

#include <array>
#include <compare>
#include <memory>
#include <optional>
#include <string_view>

#include "algorithm/secure/secret.h"

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX

/// The cryptography of secure aggregation: thin wrappers around libsodium and OpenSSL. No algorithm here is our own.
/// Randomness comes from the operating system and cannot be seeded.
namespace chorus::inline secure {

using Key = Secret<32>;
using PublicKey = std::array<std::byte, 32>;
using Digest = std::array<std::byte, 32>;
using Signature = std::array<std::byte, 64>;

void fill_random(std::span<std::byte> bytes);
Key random_key();

/// SHA-256 of parts, each preceded by its length, so that different lists of parts never have the same input.
class Hash {
 public:
  explicit Hash(std::string_view purpose);
  Hash& add(ByteView bytes);
  Hash& add(std::string_view text);
  Hash& add(std::uint64_t number);
  Digest digest() const;

 private:
  void update(ByteView bytes);

  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> state_;
};

/// Distinguishes messages at memory speed: Poly1305 with a random key that never leaves the object.
class Fingerprints {
 public:
  using Value = std::array<std::byte, 16>;
  Fingerprints() : key_(random_key()) {}
  Value of(ByteView message) const;

 private:
  Key key_;
};

/// HKDF-SHA256 (RFC 5869). `context` says what the key is for; different contexts give independent keys.
Key derive_key(ByteView secret, ByteView salt, ByteView context);

/// X25519 (RFC 7748).
struct AgreementKeys {
  Key secret;
  PublicKey open = {};
};
AgreementKeys new_agreement_keys();
PublicKey public_key_of(const Key& secret);
/// Nothing for a key of small order, whose result would be 0, or with its unused bit set, a second form of a key.
std::optional<Key> agree(const Key& secret, const PublicKey& other);

/// ChaCha20-Poly1305 (RFC 8439) with nonce 0: a key must seal one message only. `bound` is authenticated, not sent.
constexpr std::size_t kSealOverhead = 16;
Bytes seal(const Key& key, ByteView bound, ByteView text);
/// Nothing when the bytes or `bound` were changed.
std::optional<SecretBytes> unseal(const Key& key, ByteView bound, ByteView sealed);

/// Ed25519 (RFC 8032): a client's identity, valid as long as its certificate.
struct SigningKeys {
  Secret<64> secret;
  PublicKey open = {};
};
SigningKeys new_signing_keys();
Signature sign(const Secret<64>& secret, ByteView message);
bool verify(const PublicKey& signer, ByteView message, const Signature& signature);

}  // namespace chorus::inline secure
