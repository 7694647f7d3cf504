#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

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

/// ConfigError unless both ends of `address` (host:port) are on this machine.
void require_loopback(const std::string& address);

/// TLS 1.3 with certificates on both sides. The server loads replaced files within a second.
///
/// DataError: a file cannot be read, or this end's certificate is not valid at this machine's time.
std::shared_ptr<grpc::ServerCredentials> server_credentials(const TlsFiles& files);
std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const TlsFiles& files);

/// What a peer's certificate says; nothing for one that cannot be read. Throws nothing: gRPC calls it.
CertificateFacts readable_facts(std::string_view pem);

/// A file of hexadecimal serial numbers, one per line, that must not connect. Checked twice per second.
class RevokedSerials {
 public:
  explicit RevokedSerials(std::filesystem::path file) : file_(std::move(file)) {}
  /// A missing file revokes nothing; one that becomes unreadable keeps its last content.
  bool contains(const std::string& serial);

 private:
  std::filesystem::path file_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point looked_ = {};
  std::filesystem::file_time_type changed_ = {};
  std::set<std::string> serials_;
};

}  // namespace chorus::inline transport_grpc
