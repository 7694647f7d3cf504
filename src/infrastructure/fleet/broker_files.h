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

/// Files for a mosquitto broker of this fleet, in FOLDER/broker: `mosquitto.conf`, with TLS 1.3, the server's
/// certificate and the names of the clients' certificates as users, and `acl`, which lets each client write to
/// chorus/up/NAME and read chorus/down/NAME and chorus/all, and nothing else. `members` is for the server, which does
/// not see its clients' certificates: a line with the time (seconds since 1970) and the name of each client.
///
///     mosquitto -c fleet/broker/mosquitto.conf
void write_broker_files(const std::filesystem::path& folder, const std::string& address,
                        const std::vector<BrokerMember>& members);

}  // namespace chorus::inline fleet
