#include "infrastructure/transport/grpc/credentials.h"

#include <fmt/format.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>

#include <cstdlib>
#include <ctime>
#include <sstream>

#include "core/base/error.h"
#include "core/console/log.h"
#include "core/files/files.h"
#include "infrastructure/certificates/certificate.h"

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
  std::string pem = read_file(files.certificate, kMostPem);
  const CertificateFacts facts = certificate_facts(pem);
  const std::time_t now = std::time(nullptr);
  if (now < facts.from) {
    throw DataError(fmt::format("{} is valid from {}, but this machine's clock says {}; set the clock",
                                files.certificate, time_text(facts.from), time_text(now)));
  }
  if (now > facts.until) {
    throw DataError(
        fmt::format("{} expired on {}, and this machine's clock says {}; set the clock, or enrol this machine "
                    "again",
                    files.certificate, time_text(facts.until), time_text(now)));
  }
  return pem;
}

}  // namespace

void require_loopback(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  const bool numeric = host.find_first_not_of("0123456789.") == std::string::npos;
  const bool local = host == "localhost" || host == "[::1]" || (numeric && host.starts_with("127."));
  if (!local) {
    throw ConfigError(fmt::format(
        "{} is not on this machine, so the transport needs a certificate, a key and an authority; plaintext is "
        "for loopback only",
        address));
  }
  Log("transport").warning("{} is not encrypted, because both ends are on this machine", address);
}

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
  try {
    return certificate_facts(std::string(pem));
  } catch (const Error&) {
    return {};
  }
}

bool RevokedSerials::contains(const std::string& serial) {
  if (file_.empty()) return false;
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ < std::chrono::milliseconds(500)) return serials_.contains(serial);
  looked_ = now;
  std::error_code error;
  const auto changed = std::filesystem::last_write_time(file_, error);
  if (!error && changed != changed_) {
    try {
      std::istringstream lines(read_file(file_));
      std::set<std::string> serials;
      for (std::string line; lines >> line;) serials.insert(line);
      serials_ = std::move(serials);
      changed_ = changed;
    } catch (const Error& why) {
      Log("transport").error("the list of revoked certificates is not up to date: {}", why.what());
    }
  }
  return serials_.contains(serial);
}

}  // namespace chorus::inline transport_grpc
