#pragma once

#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/ports/fleet.h"

namespace chorus::inline fleet {

/// The name in the server's certificate, whatever machine it runs on.
inline constexpr const char* kServerName = "chorus-server";

/// A client that wants its certificate, as it introduces itself.
struct Admission {
  std::string name;
  std::string secret;
  std::string request;   ///< PKCS #10
  std::time_t time = 0;  ///< by its clock
};

/// What an admitted client gets.
struct Admitted {
  std::string certificate;
  std::string authority;
  std::string server;  ///< host:port
};

/// The folder of a fleet's server:
///
///     authority.key  authority.crt   the private authority
///     server.key     server.crt      signed by it; server_as_client.* are for an MQTT broker
///     fleet.json                     addresses and validity
///     members.json                   invitations and certificates, without secrets
///     revoked                        serial numbers that must not connect, one per line
///     broker/                        configuration and rules of an MQTT broker, and its members (broker_files.h)
///
/// Several processes may use it at once: changes are made under a lock, and files are replaced whole.
class FleetFolder {
 public:
  /// DataError when it holds no fleet.
  explicit FleetFolder(std::filesystem::path folder);
  /// ConfigError when it holds one already.
  static void create(const FleetCreation& creation, std::time_t now);

  FleetInvitation invite(const std::string& name, double hours, std::time_t now);
  std::vector<FleetMember> members(std::time_t now) const;
  void revoke(const std::string& name);
  std::time_t rotate(std::time_t now);

  /// Signs a request that comes with a valid invitation, which is thereby used up. The same request may come again, in
  /// case the reply was lost. A refusal says why, to those who know the secret only.
  Result<Admitted> admit(const Admission& admission, std::time_t now);

  /// host:port of the server, as clients reach it.
  const std::string& address() const { return address_; }
  /// The same of the enrolment.
  std::string enrolment_address() const;
  /// The addresses of this machine where both are served.
  const std::string& listening_address() const { return listen_; }
  std::string enrolment_listening_address() const;
  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }

 private:
  std::filesystem::path folder_;
  std::string address_, listen_;
  int days_ = 0;
};

}  // namespace chorus::inline fleet
