#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "core/files/watched_file.h"
#include "infrastructure/certificates/certificate.h"

namespace grpc {
class ChannelCredentials;
class ServerCredentials;
}  // namespace grpc

namespace chorus::inline transport_grpc {

/// PEM files of one end. All three or none; none means plaintext, for loopback only.
struct TlsFiles {
  std::string certificate;  ///< this end's
  std::string key;
  std::string authority;  ///< signs the far end's certificate
  bool secure() const { return !certificate.empty(); }
};

/// TLS 1.3 with certificates on both sides. The server loads replaced files within a second.
///
/// DataError: a file cannot be read, or this end's certificate is not valid at this machine's time.
std::shared_ptr<grpc::ServerCredentials> server_credentials(const TlsFiles& files);
std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const TlsFiles& files);

/// What a peer's certificate says; nothing for one that cannot be read. Throws nothing: gRPC calls it.
CertificateFacts readable_facts(std::string_view pem);

/// Who must not be connected: a file of hexadecimal serial numbers, one per line, checked twice per second, and
/// certificates whose time has passed.
class RevokedSerials {
 public:
  /// A missing file revokes nothing.
  explicit RevokedSerials(std::filesystem::path file) : file_(std::move(file)) {}
  /// Why the owner of a certificate must not; empty: it may.
  std::string refusal(const CertificateFacts& owner);

 private:
  std::mutex mutex_;
  WatchedFile file_;
  std::set<std::string> serials_;
};

}  // namespace chorus::inline transport_grpc
