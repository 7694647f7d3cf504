#include "infrastructure/fleet/broker_files.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/files/files.h"
#include "infrastructure/certificates/certificate.h"
#include "infrastructure/fleet/fleet_folder.h"

namespace chorus::inline fleet {
namespace {

namespace fs = std::filesystem;

constexpr std::time_t kListBackdated = 600;  // seconds; tolerates clocks that are slightly slow

// A broker that is started as root becomes another user, who cannot read the server's key; so it stays who it is.
std::string owner() {
  const passwd* entry = ::getpwuid(::geteuid());
  return entry == nullptr ? "root" : entry->pw_name;
}

// What follows `listener`: the port, and the interface where the operator has named one.
std::string listener_of(const BrokerInput& input) {
  const std::size_t colon = input.listen.rfind(':');
  std::string host = input.listen.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const bool anywhere = input.listen == input.address || host == "0.0.0.0" || host == "::";
  return input.listen.substr(colon + 1) + (anywhere ? "" : " " + host);
}

bool write_revocations(const fs::path& folder, const std::vector<std::string>& serials) {
  if (!fs::exists(folder / "authority.key")) return false;
  try {
    const std::string authority = read_file(folder / "authority.crt");
    const CertificateFacts facts = certificate_facts(authority);
    const std::time_t now = std::max(std::time(nullptr) - kListBackdated, facts.from);
    write_file(folder / "broker" / "revoked.crl",
               make_revocations({authority, read_file(folder / "authority.key"), serials, now, facts.until}));
    return true;
  } catch (const DataError&) {
    return false;  // a revocation must not fail because of this
  }
}

}  // namespace

bool write_broker_files(const BrokerInput& input) {
  const fs::path whole = fs::absolute(input.folder);
  const fs::path broker = whole / "broker";
  fs::create_directories(broker);
  const bool listed = write_revocations(whole, input.revoked);
  std::string list;
  for (const BrokerMember& member : input.members) list += fmt::format("{} {}\n", member.until, member.name);
  write_file(broker / "members", list);
  const std::string rules = fmt::format(
      "# Written by `chorus fleet`. Revoked clients are refused by the server (members), which tells them why.\n"
      "pattern write chorus/up/%u\npattern read chorus/down/%u\npattern read chorus/all\n\n"
      "user {}\ntopic read chorus/up/+\ntopic write chorus/down/+\ntopic write chorus/all\n",
      kServerName);
  write_file(broker / "acl", rules);
  if (fs::exists(broker / "mosquitto.conf")) return listed;  // the operator may have changed it
  const fs::path list_file = broker / "revoked.crl";
  write_file(broker / "mosquitto.conf",
             fmt::format("# For `serving: {{transport: mqtt}}`: mosquitto -c {0}/broker/mosquitto.conf\n"
                         "listener {1}\n"
                         "cafile {0}/authority.crt\ncertfile {0}/server.crt\nkeyfile {0}/server.key\n"
                         "tls_version tlsv1.3\nrequire_certificate true\nuse_identity_as_username true\n"
                         "{3}acl_file {0}/broker/acl\nuser {2}\npersistence false\n"
                         "# A model is many messages, and none may be lost.\nmax_queued_messages 0\n"
                         "# A letter has 4 MiB at most.\nmessage_size_limit 4259840\n",
                         whole.string(), listener_of(input), owner(),
                         fs::exists(list_file) ? fmt::format("crlfile {}\n", list_file.string()) : ""));
  return listed;
}

}  // namespace chorus::inline fleet
