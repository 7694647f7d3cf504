#include "infrastructure/transport/grpc/credentials.h"

#include <fmt/format.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>

#include <cstdlib>
#include <sstream>

#include "core/base/error.h"
#include "core/files/files.h"
#include "infrastructure/certificates/own_end.h"

namespace chorus::inline transport_grpc {
namespace {

constexpr unsigned kRefreshSeconds = 1;
constexpr std::uint64_t kMostPem = 1U << 20U;

// gRPC 1.51 cannot set the minimum TLS version and accepts 1.2. Its only TLS 1.2 suite here uses pre-shared keys, which
// are never set, so no handshake of that version succeeds; the list does not affect the suites of TLS 1.3.
void require_tls_1_3() {
  static const int kOnce = ::setenv("GRPC_SSL_CIPHER_SUITES", "PSK-AES256-GCM-SHA384", 1);
  check(kOnce == 0, "the TLS version cannot be set");
}

std::string own_certificate(const TlsFiles& files) {
  require_tls_1_3();
  return valid_certificate(files.certificate);
}

}  // namespace

std::shared_ptr<grpc::ServerCredentials> server_credentials(const TlsFiles& files) {
  own_certificate(files);
  read_file(files.key, kMostPem);
  read_file(files.authority, kMostPem);
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(files.key, files.certificate,
                                                                           files.authority, kRefreshSeconds));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  return grpc::experimental::TlsServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const TlsFiles& files) {
  grpc::SslCredentialsOptions options;
  options.pem_cert_chain = own_certificate(files);
  options.pem_private_key = read_file(files.key, kMostPem);
  options.pem_root_certs = read_file(files.authority, kMostPem);
  return grpc::SslCredentials(options);
}

CertificateFacts readable_facts(std::string_view pem) {
  // All calls of a connection have one certificate, and whoever makes many calls must not make the server read it anew.
  thread_local std::pair<std::string, CertificateFacts> last;
  if (last.first != pem) {
    last = {std::string(pem), {}};
    try {
      last.second = certificate_facts(last.first);
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): nothing is known of it
    }
  }
  return last.second;
}

std::string RevokedSerials::refusal(const CertificateFacts& owner) {
  if (certificate_expired(owner.until)) return expiry_text(owner.until);
  const std::lock_guard lock(mutex_);
  if (const auto text = file_.news()) {
    std::istringstream lines(*text);
    serials_.clear();
    for (std::string line; lines >> line;) serials_.insert(line);
  }
  return serials_.contains(owner.serial) ? kRevokedText : "";
}

}  // namespace chorus::inline transport_grpc
