#pragma once

#include <memory>
#include <string>

#include "core/base/result.h"

namespace chorus::inline fleet {

/// One TLS 1.3 connection that exchanges lines of text, for enrolment: the server shows its certificate, the client has
/// none yet. Everything must finish within a deadline, however slowly the other end sends.
class TlsSocket {
 public:
  static constexpr std::size_t kLongestLine = 64 * 1024;

  struct ServerFiles {
    std::string key, certificate, authority;  ///< paths of PEM files; the authority is sent along
  };
  /// Takes over an accepted connection.
  static Result<TlsSocket> serve(int socket, const ServerFiles& files, double seconds);

  struct Pin {
    std::string fingerprint;  ///< of the authority that signed the server's certificate
    std::string server_name;
  };
  /// Ignores the certificates' dates: the clock of a new machine may be wrong, and the pin suffices.
  static Result<TlsSocket> connect(const std::string& address, const Pin& pin, double seconds);

  TlsSocket(TlsSocket&&) noexcept;
  TlsSocket& operator=(TlsSocket&&) noexcept;
  ~TlsSocket();

  Result<std::string> read_line();
  /// False: the connection is lost.
  bool write_line(const std::string& text);

 private:
  struct State;
  explicit TlsSocket(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// A socket that listens at host:port. WorldError when it cannot.
int listen_at(const std::string& address);

}  // namespace chorus::inline fleet
