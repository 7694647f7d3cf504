#pragma once

#include <ctime>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/config/registry.h"

namespace chorus::inline ports {

/// A client of a fleet, as its server knows it.
struct FleetMember {
  enum class State { kInvited, kInvitationExpired, kJoined, kCertificateExpired, kRevoked };
  std::string name;
  State state = State::kInvited;
  std::time_t until = 0;  ///< end of the invitation or of the certificate
};

struct FleetCreation {
  std::filesystem::path folder;  ///< must not hold a fleet
  std::string address;           ///< host:port at which clients reach the server; port + 1 is for enrolment
  int days = 365;                ///< a certificate of a server or a client is valid
  std::string listen = {};       ///< host:port of this machine where the server listens; empty: at `address`
};

/// What a new client needs: one line to paste.
struct FleetInvitation {
  std::string address;  ///< of the enrolment
  std::string token;    ///< valid once: the client's name, a secret, the fingerprint of the fleet's authority
  std::time_t until = 0;
};

struct FleetEnrolment {
  std::string address;  ///< as in the invitation
  std::string token;
  std::filesystem::path folder;  ///< receives client.key, client.crt, authority.crt and fleet.json
  std::function<void(const std::string&)> sending = {};  ///< gets what is about to leave this machine
};

/// A machine that has joined.
struct FleetIdentity {
  std::string name;
  std::string server;     ///< host:port
  std::time_t until = 0;  ///< its certificate is valid
};

/// Nobody answers at the address of an enrolment: its server may not be running yet.
class FleetUnreachable : public WorldError {
 public:
  using WorldError::WorldError;
};

/// One end of a fleet's connections: where the server is, and the files that prove who this end is.
struct FleetEnd {
  std::string address;  ///< host:port of the server
  std::filesystem::path certificate, key, authority;
  std::string listen = {};             ///< of a server: host:port of this machine
  std::filesystem::path revoked = {};  ///< of a server: serial numbers that must not connect
  /// Of a server that is the client of a broker.
  std::filesystem::path client_certificate = {}, client_key = {};
  std::filesystem::path broker_members = {};  ///< until when each client of the broker may take part
};

/// The servers and clients that trust each other: a private authority in the server's folder, certificates for the
/// server and for every client that was invited. Private keys never leave the machine that made them. By name, because
/// a build without OpenSSL has none.
class FleetOffice {
 public:
  static constexpr std::string_view kKind = "fleet";
  virtual ~FleetOffice() = default;

  virtual void create(const FleetCreation& creation) = 0;
  /// A client that has joined may be invited again; its old certificate is revoked when it uses the new invitation.
  virtual FleetInvitation invite(const std::filesystem::path& folder, const std::string& name, double hours) = 0;
  virtual std::vector<FleetMember> members(const std::filesystem::path& folder) = 0;
  /// A running server drops the client within a second.
  virtual void revoke(const std::filesystem::path& folder, const std::string& name) = 0;
  /// A new key and certificate for the server, which a running one takes up. Returns the end of its validity.
  virtual std::time_t rotate(const std::filesystem::path& folder) = 0;
  /// Lets invited clients enrol until `stop` says so. `joined` gets their names.
  virtual void admit(const std::filesystem::path& folder, const std::function<bool()>& stop,
                     const std::function<void(const std::string&)>& joined) = 0;
  /// The client's side. FleetUnreachable: nobody answers. WorldError: the server is another than the invitation's, or
  /// refuses.
  virtual FleetIdentity enrol(const FleetEnrolment& enrolment) = 0;
  /// Who the machine with this folder has joined as; nothing where it has not.
  virtual std::optional<FleetIdentity> identity(const std::filesystem::path& folder) = 0;
  /// Whether it joined with this token; also true where that is not known.
  virtual bool joined_with(const std::filesystem::path& folder, const std::string& token) = 0;
  /// The server's end, from a fleet's folder, and a client's end, from its identity's.
  virtual FleetEnd server_end(const std::filesystem::path& folder) = 0;
  virtual FleetEnd client_end(const std::filesystem::path& folder) = 0;
};

using FleetOffices = Registry<FleetOffice>;

}  // namespace chorus::inline ports
