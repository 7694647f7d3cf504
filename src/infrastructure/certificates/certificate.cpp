#include "infrastructure/certificates/certificate.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>

#include "core/base/error.h"

namespace chorus::inline certificates {
namespace {

template <auto free>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    free(object);
  }
};
using Bio = std::unique_ptr<BIO, Free<BIO_free>>;
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using X509Ptr = std::unique_ptr<X509, Free<X509_free>>;
using RequestPtr = std::unique_ptr<X509_REQ, Free<X509_REQ_free>>;
using CrlPtr = std::unique_ptr<X509_CRL, Free<X509_CRL_free>>;
using RevokedPtr = std::unique_ptr<X509_REVOKED, Free<X509_REVOKED_free>>;
using Integer = std::unique_ptr<ASN1_INTEGER, Free<ASN1_INTEGER_free>>;
using Time = std::unique_ptr<ASN1_TIME, Free<ASN1_TIME_free>>;
using Number = std::unique_ptr<BIGNUM, Free<BN_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION_free>>;

constexpr long kVersion3 = 2;  // X.509 counts from 0
constexpr long kListVersion2 = 1;
constexpr int kSerialBits = 127;  // positive in 16 bytes
constexpr const char* kNameCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_";
constexpr std::size_t kLongestName = 64;  // of a common name (RFC 5280)

void need(bool done) {
  if (done) return;
  const unsigned long code = ERR_get_error();
  throw InternalError(fmt::format("OpenSSL failed: {}", code == 0 ? "no reason" : ERR_reason_error_string(code)));
}

Bio reader(const std::string& pem) {
  Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  need(bio != nullptr);
  return bio;
}

template <typename Write>
std::string written(Write write) {
  const Bio bio(BIO_new(BIO_s_mem()));
  need(bio != nullptr && write(bio.get()) == 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

Key read_key(const std::string& pem) {
  Key key(PEM_read_bio_PrivateKey(reader(pem).get(), nullptr, nullptr, nullptr));
  if (!key) throw DataError("a private key cannot be read: it is not a PEM key");
  return key;
}

X509Ptr read_x509(const std::string& pem) {
  X509Ptr certificate(PEM_read_bio_X509(reader(pem).get(), nullptr, nullptr, nullptr));
  if (!certificate) throw DataError("a certificate cannot be read: it is not a PEM certificate");
  return certificate;
}

void set_name(X509_NAME* subject, const std::string& name) {
  // A comma would add a second name to the certificate.
  if (name.empty() || name.size() > kLongestName || name.find_first_not_of(kNameCharacters) != std::string::npos) {
    throw DataError(fmt::format("the name \"{}\" must have 1 to {} letters, digits, dots, hyphens or underscores", name,
                                kLongestName));
  }
  need(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(name.data()),
                                  static_cast<int>(name.size()), -1, 0) == 1);
}

void extend(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  need(extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1);
}

X509Ptr blank(EVP_PKEY* key, const std::string& name, std::time_t from, std::time_t until) {
  X509Ptr certificate(X509_new());
  need(certificate != nullptr && X509_set_version(certificate.get(), kVersion3) == 1);
  const Number serial(BN_new());
  need(serial != nullptr && BN_rand(serial.get(), kSerialBits, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1);
  need(BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(certificate.get())) != nullptr);
  need(ASN1_TIME_set(X509_getm_notBefore(certificate.get()), from) != nullptr);
  need(ASN1_TIME_set(X509_getm_notAfter(certificate.get()), until) != nullptr);
  set_name(X509_get_subject_name(certificate.get()), name);
  need(X509_set_pubkey(certificate.get(), key) == 1);
  return certificate;
}

Number read_hex(const std::string& hex) {
  BIGNUM* number = nullptr;
  const int digits = BN_hex2bn(&number, hex.c_str());
  Number result(number);
  if (digits <= 0 || static_cast<std::size_t>(digits) != hex.size()) {
    throw DataError(fmt::format("the serial number \"{}\" is not hexadecimal", hex));
  }
  return result;
}

std::time_t to_time(const ASN1_TIME* time) {
  std::tm parts{};
  need(ASN1_TIME_to_tm(time, &parts) == 1);
  return ::timegm(&parts);
}

}  // namespace

std::string make_key() {
  const Key key(EVP_EC_gen("P-256"));
  need(key != nullptr);
  return written(
      [&](BIO* bio) { return PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr); });
}

std::string make_authority(const AuthorityInput& input) {
  const Key key = read_key(input.key);
  const X509Ptr root = blank(key.get(), input.name, input.from, input.until);
  need(X509_set_issuer_name(root.get(), X509_get_subject_name(root.get())) == 1);
  extend(root.get(), root.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  extend(root.get(), root.get(), NID_key_usage, "critical,keyCertSign,cRLSign");
  extend(root.get(), root.get(), NID_subject_key_identifier, "hash");
  need(X509_sign(root.get(), key.get(), EVP_sha256()) > 0);
  return written([&](BIO* bio) { return PEM_write_bio_X509(bio, root.get()); });
}

std::string make_request(const std::string& pem, const std::string& name) {
  const Key key = read_key(pem);
  const RequestPtr request(X509_REQ_new());
  need(request != nullptr);
  set_name(X509_REQ_get_subject_name(request.get()), name);
  need(X509_REQ_set_pubkey(request.get(), key.get()) == 1 && X509_REQ_sign(request.get(), key.get(), EVP_sha256()) > 0);
  return written([&](BIO* bio) { return PEM_write_bio_X509_REQ(bio, request.get()); });
}

std::string sign_request(const SignInput& input) {
  const RequestPtr request(PEM_read_bio_X509_REQ(reader(input.request).get(), nullptr, nullptr, nullptr));
  if (!request) throw DataError("a certificate request cannot be read");
  EVP_PKEY* key = X509_REQ_get0_pubkey(request.get());
  if (key == nullptr || X509_REQ_verify(request.get(), key) != 1) {
    throw DataError("a certificate request is not signed by its own key");
  }
  const X509Ptr root = read_x509(input.authority);
  const Key root_key = read_key(input.authority_key);
  const X509Ptr leaf = blank(key, input.name, input.from, input.until);
  need(X509_set_issuer_name(leaf.get(), X509_get_subject_name(root.get())) == 1);
  extend(leaf.get(), root.get(), NID_basic_constraints, "critical,CA:FALSE");
  extend(leaf.get(), root.get(), NID_key_usage, "critical,digitalSignature");
  extend(leaf.get(), root.get(), NID_ext_key_usage,
         input.role == CertificateRole::kServer ? "serverAuth" : "clientAuth");
  extend(leaf.get(), root.get(), NID_subject_alt_name, "DNS:" + input.name);
  extend(leaf.get(), root.get(), NID_authority_key_identifier, "keyid:always");
  need(X509_sign(leaf.get(), root_key.get(), EVP_sha256()) > 0);
  return written([&](BIO* bio) { return PEM_write_bio_X509(bio, leaf.get()); });
}

std::string make_revocations(const RevocationInput& input) {
  const X509Ptr root = read_x509(input.authority);
  const Key key = read_key(input.authority_key);
  if (X509_check_private_key(root.get(), key.get()) != 1) throw DataError("the key is not the authority's");
  const CrlPtr list(X509_CRL_new());
  need(list != nullptr && X509_CRL_set_version(list.get(), kListVersion2) == 1);
  need(X509_CRL_set_issuer_name(list.get(), X509_get_subject_name(root.get())) == 1);
  const Time from(ASN1_TIME_set(nullptr, input.from)), until(ASN1_TIME_set(nullptr, input.until));
  need(from && until && X509_CRL_set1_lastUpdate(list.get(), from.get()) == 1);
  need(X509_CRL_set1_nextUpdate(list.get(), until.get()) == 1);
  for (const std::string& hex : input.serials) {
    const Number serial = read_hex(hex);
    const Integer number(BN_to_ASN1_INTEGER(serial.get(), nullptr));
    RevokedPtr entry(X509_REVOKED_new());
    need(number && entry && X509_REVOKED_set_serialNumber(entry.get(), number.get()) == 1);
    need(X509_REVOKED_set_revocationDate(entry.get(), from.get()) == 1);
    need(X509_CRL_add0_revoked(list.get(), entry.get()) == 1);
    (void)entry.release();  // the list's now
  }
  need(X509_CRL_sort(list.get()) == 1);
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, root.get(), nullptr, nullptr, list.get(), 0);
  const Extension issuer(X509V3_EXT_conf_nid(nullptr, &context, NID_authority_key_identifier, "keyid:always"));
  need(issuer && X509_CRL_add_ext(list.get(), issuer.get(), -1) == 1);
  const Integer number(ASN1_INTEGER_new());
  need(number && ASN1_INTEGER_set_int64(number.get(), input.from) == 1);
  need(X509_CRL_add1_ext_i2d(list.get(), NID_crl_number, number.get(), 0, 0) == 1);
  need(X509_CRL_sign(list.get(), key.get(), EVP_sha256()) > 0);
  return written([&](BIO* bio) { return PEM_write_bio_X509_CRL(bio, list.get()); });
}

CertificateFacts certificate_facts(const std::string& pem) {
  const X509Ptr certificate = read_x509(pem);
  CertificateFacts facts;
  X509_NAME* subject = X509_get_subject_name(certificate.get());
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at >= 0) {
    const ASN1_STRING* name = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
    facts.name.assign(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name)),
                      static_cast<std::size_t>(ASN1_STRING_length(name)));
  }
  const Number serial(ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate.get()), nullptr));
  need(serial != nullptr);
  char* hex = BN_bn2hex(serial.get());
  need(hex != nullptr);
  facts.serial = hex;
  OPENSSL_free(hex);
  facts.from = to_time(X509_get0_notBefore(certificate.get()));
  facts.until = to_time(X509_get0_notAfter(certificate.get()));
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  need(X509_digest(certificate.get(), EVP_sha256(), digest, &size) == 1);
  for (unsigned int i = 0; i < size; ++i) facts.fingerprint += fmt::format("{:02x}", digest[i]);
  return facts;
}

bool key_fits(const std::string& key, const std::string& certificate) {
  return X509_check_private_key(read_x509(certificate).get(), read_key(key).get()) == 1;
}

std::string time_text(std::time_t time) { return fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(time)); }

}  // namespace chorus::inline certificates
