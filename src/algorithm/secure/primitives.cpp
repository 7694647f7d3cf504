#include "algorithm/secure/primitives.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <sodium.h>

#include <memory>

#include "core/base/error.h"

namespace chorus::inline secure {
namespace {

const unsigned char* in(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }
unsigned char* out(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

constexpr std::array<unsigned char, crypto_aead_chacha20poly1305_ietf_NPUBBYTES> kNoNonce{};

void start_library() {
  static const bool kStarted = sodium_init() >= 0;
  check(kStarted, "libsodium could not be started");
}

}  // namespace

void wipe(void* memory, std::size_t size) {
  if (size > 0) sodium_memzero(memory, size);
}

bool equal_secrets(ByteView a, ByteView b) {
  return a.size() == b.size() && (a.empty() || sodium_memcmp(a.data(), b.data(), a.size()) == 0);
}

void fill_random(std::span<std::byte> bytes) {
  start_library();
  randombytes_buf(bytes.data(), bytes.size());
}

Key random_key() {
  Key key;
  fill_random({key.data(), Key::size()});
  return key;
}

// OpenSSL's is several times as fast as libsodium's, and a model need not be copied.
Hash::Hash(std::string_view purpose) : state_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  static const EVP_MD* const kSha256 = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  check(state_ != nullptr && EVP_DigestInit_ex2(state_.get(), kSha256, nullptr) == 1, "OpenSSL has no SHA-256");
  add(purpose);
}

void Hash::update(ByteView bytes) {
  check(EVP_DigestUpdate(state_.get(), bytes.data(), bytes.size()) == 1, "OpenSSL could not hash");
}

Hash& Hash::add(ByteView bytes) {
  add(bytes.size());
  update(bytes);
  return *this;
}

Hash& Hash::add(std::string_view text) { return add(std::as_bytes(std::span(text))); }

Hash& Hash::add(std::uint64_t number) {
  std::array<std::byte, 8> bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(number >> (8 * i));
  update(bytes);
  return *this;
}

Digest Hash::digest() const {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> last(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  Digest result;
  check(last != nullptr && EVP_MD_CTX_copy_ex(last.get(), state_.get()) == 1 &&
            EVP_DigestFinal_ex(last.get(), out(result.data()), nullptr) == 1,
        "OpenSSL could not hash");
  return result;
}

Fingerprints::Value Fingerprints::of(ByteView message) const {
  // OpenSSL's is several times as fast as libsodium's. Fetched once: fetching is slow.
  static EVP_MAC* const kPoly1305 = EVP_MAC_fetch(nullptr, "POLY1305", nullptr);
  const std::unique_ptr<EVP_MAC_CTX, void (*)(EVP_MAC_CTX*)> code(EVP_MAC_CTX_new(kPoly1305), EVP_MAC_CTX_free);
  Value value;
  std::size_t size = 0;
  check(code != nullptr && EVP_MAC_init(code.get(), in(key_.data()), Key::size(), nullptr) == 1 &&
            EVP_MAC_update(code.get(), in(message.data()), message.size()) == 1 &&
            EVP_MAC_final(code.get(), out(value.data()), &size, value.size()) == 1 && size == value.size(),
        "OpenSSL has no Poly1305");
  return value;
}

Key derive_key(ByteView secret, ByteView salt, ByteView context) {
  // Fetched once: fetching costs more than the derivation.
  static EVP_KDF* const kHkdf = EVP_KDF_fetch(nullptr, "HKDF", nullptr);
  const std::unique_ptr<EVP_KDF_CTX, void (*)(EVP_KDF_CTX*)> derivation(EVP_KDF_CTX_new(kHkdf), EVP_KDF_CTX_free);
  const auto octets = [](const char* name, ByteView bytes) {
    return OSSL_PARAM_construct_octet_string(name, const_cast<std::byte*>(bytes.data()), bytes.size());
  };
  char digest[] = "SHA256";
  std::vector<OSSL_PARAM> parameters = {OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
                                        octets(OSSL_KDF_PARAM_KEY, secret), octets(OSSL_KDF_PARAM_INFO, context)};
  if (!salt.empty()) parameters.push_back(octets(OSSL_KDF_PARAM_SALT, salt));
  parameters.push_back(OSSL_PARAM_construct_end());
  Key key;
  check(derivation != nullptr && EVP_KDF_derive(derivation.get(), out(key.data()), Key::size(), parameters.data()) == 1,
        "OpenSSL could not derive a key");
  return key;
}

AgreementKeys new_agreement_keys() {
  AgreementKeys keys{random_key(), {}};
  keys.open = public_key_of(keys.secret);
  return keys;
}

PublicKey public_key_of(const Key& secret) {
  PublicKey open;
  crypto_scalarmult_base(out(open.data()), in(secret.data()));
  return open;
}

std::optional<Key> agree(const Key& secret, const PublicKey& other) {
  Key shared;
  if ((other.back() & std::byte{0x80}) != std::byte{0}) return std::nullopt;
  if (crypto_scalarmult(out(shared.data()), in(secret.data()), in(other.data())) != 0) return std::nullopt;
  return shared;
}

Bytes seal(const Key& key, ByteView bound, ByteView text) {
  Bytes sealed(kSealOverhead + text.size());
  unsigned long long size = 0;
  crypto_aead_chacha20poly1305_ietf_encrypt(out(sealed.data()), &size, in(text.data()), text.size(), in(bound.data()),
                                            bound.size(), nullptr, kNoNonce.data(), in(key.data()));
  return sealed;
}

std::optional<SecretBytes> unseal(const Key& key, ByteView bound, ByteView sealed) {
  if (sealed.size() < kSealOverhead) return std::nullopt;
  SecretBytes text(sealed.size() - kSealOverhead);
  unsigned long long size = 0;
  if (crypto_aead_chacha20poly1305_ietf_decrypt(out(text.data()), &size, nullptr, in(sealed.data()), sealed.size(),
                                                in(bound.data()), bound.size(), kNoNonce.data(), in(key.data())) != 0) {
    return std::nullopt;
  }
  return text;
}

SigningKeys new_signing_keys() {
  start_library();
  SigningKeys keys;
  crypto_sign_keypair(out(keys.open.data()), out(keys.secret.data()));
  return keys;
}

Signature sign(const Secret<64>& secret, ByteView message) {
  Signature signature;
  crypto_sign_detached(out(signature.data()), nullptr, in(message.data()), message.size(), in(secret.data()));
  return signature;
}

bool verify(const PublicKey& signer, ByteView message, const Signature& signature) {
  return crypto_sign_verify_detached(in(signature.data()), in(message.data()), message.size(), in(signer.data())) == 0;
}

}  // namespace chorus::inline secure
