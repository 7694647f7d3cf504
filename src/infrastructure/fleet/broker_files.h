#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace chorus::inline fleet {

/// Files for a mosquitto broker of this fleet, in FOLDER/broker: `mosquitto.conf`, with TLS 1.3, the server's
/// certificate and the names of the clients' certificates as users, and `acl`, which lets each client write to
/// chorus/up/NAME and read chorus/down/NAME and chorus/all, and nothing else. A revoked client can do nothing, once the
/// broker has read the rules again: it does when it gets SIGHUP.
///
///     mosquitto -c fleet/broker/mosquitto.conf
void write_broker_files(const std::filesystem::path& folder, const std::string& address,
                        const std::vector<std::string>& revoked);

}  // namespace chorus::inline fleet
