#include "algorithm/secure/credential.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <sodium.h>

#include <cstring>
#include <memory>

#include "core/base/error.h"

namespace chorus::inline secure {
namespace {

template <auto free>
struct FreeWith {
  template <typename T>
  void operator()(T* object) const {
    free(object);
  }
};
using BioPtr = std::unique_ptr<BIO, FreeWith<BIO_free>>;
using PkeyPtr = std::unique_ptr<EVP_PKEY, FreeWith<EVP_PKEY_free>>;
using CertificatePtr = std::unique_ptr<X509, FreeWith<X509_free>>;
using DigestContext = std::unique_ptr<EVP_MD_CTX, FreeWith<EVP_MD_CTX_free>>;
using StorePtr = std::unique_ptr<X509_STORE, FreeWith<X509_STORE_free>>;
using StoreContext = std::unique_ptr<X509_STORE_CTX, FreeWith<X509_STORE_CTX_free>>;

constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kMostCertificate = 16384;

BioPtr pem_reader(const std::string& pem) {
  BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  check(bio != nullptr, "OpenSSL has no memory");
  return bio;
}

CertificatePtr certificate_of(const std::string& pem) {
  return CertificatePtr(PEM_read_bio_X509(pem_reader(pem).get(), nullptr, nullptr, nullptr));
}

Digest statement(const PublicKey& signer) { return Hash("chorus secure identity 1").add(signer).digest(); }
const unsigned char* raw(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }

bool valid_certificate(X509* certificate, X509* authority, std::time_t now) {
  const StorePtr store(X509_STORE_new());
  const StoreContext context(X509_STORE_CTX_new());
  check(store != nullptr && context != nullptr, "OpenSSL has no memory");
  if (X509_STORE_add_cert(store.get(), authority) != 1) return false;
  if (X509_STORE_CTX_init(context.get(), store.get(), certificate, nullptr) != 1) return false;
  X509_STORE_CTX_set_time(context.get(), 0, now);
  if (X509_STORE_CTX_set_purpose(context.get(), X509_PURPOSE_SSL_CLIENT) != 1) return false;
  return X509_verify_cert(context.get()) == 1;
}

std::string common_name(X509* certificate) {
  X509_NAME* subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0) return "";
  const ASN1_STRING* name = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(name)),
          static_cast<std::size_t>(ASN1_STRING_length(name))};
}

Failure not_valid(const char* why) { return {Failure::Kind::kRefused, why}; }

}  // namespace

SigningKeys signing_keys_of(const CertifiedKey& own) {
  constexpr std::string_view kPurpose = "chorus secure identity 1";
  const Key seed = derive_key(std::as_bytes(std::span(own.key)), {}, std::as_bytes(std::span(kPurpose)));
  SigningKeys keys;
  const int done = crypto_sign_seed_keypair(reinterpret_cast<unsigned char*>(keys.open.data()),
                                            reinterpret_cast<unsigned char*>(keys.secret.data()), raw(seed.data()));
  check(done == 0, "libsodium cannot derive a key");
  return keys;
}

Bytes issue_credential(const CertifiedKey& own, const PublicKey& signer) {
  const CertificatePtr certificate = certificate_of(own.certificate);
  const PkeyPtr key(PEM_read_bio_PrivateKey(pem_reader(own.key).get(), nullptr, nullptr, nullptr));
  if (!certificate || !key || X509_check_private_key(certificate.get(), key.get()) != 1) {
    throw DataError("the certificate and the key of this client cannot be read, or do not belong together");
  }
  unsigned char* der = nullptr;
  const int size = i2d_X509(certificate.get(), &der);
  check(size > 0, "OpenSSL cannot write a certificate");
  const auto der_bytes = static_cast<std::size_t>(size);
  Bytes credential(kLengthBytes + der_bytes);
  for (std::size_t i = 0; i < kLengthBytes; ++i) credential[i] = static_cast<std::byte>(der_bytes >> (8 * i));
  std::memcpy(credential.data() + kLengthBytes, der, der_bytes);
  OPENSSL_free(der);

  const Digest said = statement(signer);
  const DigestContext context(EVP_MD_CTX_new());
  std::size_t length = 0;
  check(context != nullptr && EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key.get()) == 1 &&
            EVP_DigestSign(context.get(), nullptr, &length, raw(said.data()), said.size()) == 1,
        "OpenSSL cannot sign");
  credential.resize(kLengthBytes + der_bytes + length);
  check(EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(credential.data() + kLengthBytes + der_bytes),
                       &length, raw(said.data()), said.size()) == 1,
        "OpenSSL cannot sign");
  credential.resize(kLengthBytes + der_bytes + length);
  return credential;
}

Result<std::string> name_in_credential(const CredentialInput& input) {
  const ByteView bytes = input.credential;
  if (bytes.size() < kLengthBytes) return not_valid("it has no certificate");
  std::size_t size = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) size |= std::to_integer<std::size_t>(bytes[i]) << (8 * i);
  if (size == 0 || size > kMostCertificate || size >= bytes.size() - kLengthBytes) {
    return not_valid("its certificate has an impossible length");
  }
  const unsigned char* at = raw(bytes.data()) + kLengthBytes;
  const unsigned char* const end = at + size;
  const CertificatePtr certificate(d2i_X509(nullptr, &at, static_cast<long>(size)));
  if (!certificate || at != end) return not_valid("its certificate cannot be read");
  const CertificatePtr authority = certificate_of(input.authority);
  if (!authority) return not_valid("the certificate of the authority cannot be read");
  if (!valid_certificate(certificate.get(), authority.get(), input.now)) {
    return not_valid("its certificate is not a valid one of a client of this fleet");
  }
  const Digest said = statement(input.signer);
  const ByteView signature = bytes.subspan(kLengthBytes + size);
  const DigestContext context(EVP_MD_CTX_new());
  if (context == nullptr ||
      EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, X509_get0_pubkey(certificate.get())) != 1 ||
      EVP_DigestVerify(context.get(), raw(signature.data()), signature.size(), raw(said.data()), said.size()) != 1) {
    return not_valid("its certificate did not sign its identity");
  }
  std::string name = common_name(certificate.get());
  if (name.empty()) return not_valid("its certificate has no name");
  return name;
}

}  // namespace chorus::inline secure
