#pragma once

#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

namespace chorus::inline fleet {

/// Until when a client may take part; 0: it is revoked.
struct BrokerMember {
  std::string name;
  std::time_t until = 0;
};

struct BrokerInput {
  std::filesystem::path folder;  ///< the fleet's
  std::string address, listen;   ///< host:port where clients reach the broker, and where it listens
  std::vector<BrokerMember> members = {};
  std::vector<std::string> revoked = {};  ///< serial numbers
};

/// Files for a mosquitto broker of this fleet, in FOLDER/broker: `mosquitto.conf`, with TLS 1.3, the server's
/// certificate and the names of the clients' certificates as users, and `acl`, which lets each client write to
/// chorus/up/NAME and read chorus/down/NAME and chorus/all, and nothing else. `members` is for the server, which does
/// not see its clients' certificates: a line with the time (seconds since 1970) and the name of each client.
/// `revoked.crl` has the certificates that the broker must refuse, signed by the authority and valid as long as it. A
/// broker reads it when it starts, and again upon SIGHUP for later connections.
///
///     mosquitto -c fleet/broker/mosquitto.conf
/// False: revoked.crl is as it was, because the authority's key is not in the folder, or not usable.
[[nodiscard]] bool write_broker_files(const BrokerInput& input);

}  // namespace chorus::inline fleet
