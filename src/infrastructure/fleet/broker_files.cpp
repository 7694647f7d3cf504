#include "infrastructure/fleet/broker_files.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include "core/files/files.h"
#include "infrastructure/fleet/fleet_folder.h"

namespace chorus::inline fleet {
namespace {

namespace fs = std::filesystem;

// A broker that is started as root becomes another user, who cannot read the server's key; so it stays who it is.
std::string owner() {
  const passwd* entry = ::getpwuid(::geteuid());
  return entry == nullptr ? "root" : entry->pw_name;
}

}  // namespace

void write_broker_files(const fs::path& folder, const std::string& address, const std::vector<BrokerMember>& members) {
  const fs::path whole = fs::absolute(folder);
  const fs::path broker = whole / "broker";
  fs::create_directories(broker);
  std::string list;
  for (const BrokerMember& member : members) list += fmt::format("{} {}\n", member.until, member.name);
  write_file(broker / "members", list);
  const std::string rules = fmt::format(
      "# Written by `chorus fleet`. Revoked clients are refused by the server (members), which tells them why.\n"
      "pattern write chorus/up/%u\npattern read chorus/down/%u\npattern read chorus/all\n\n"
      "user {}\ntopic read chorus/up/+\ntopic write chorus/down/+\ntopic write chorus/all\n",
      kServerName);
  write_file(broker / "acl", rules);
  if (fs::exists(broker / "mosquitto.conf")) return;  // the operator may have changed it
  write_file(broker / "mosquitto.conf",
             fmt::format("# For `serving: {{transport: mqtt}}`: mosquitto -c {0}/broker/mosquitto.conf\n"
                         "listener {1}\n"
                         "cafile {0}/authority.crt\ncertfile {0}/server.crt\nkeyfile {0}/server.key\n"
                         "tls_version tlsv1.3\nrequire_certificate true\nuse_identity_as_username true\n"
                         "acl_file {0}/broker/acl\nuser {2}\npersistence false\n"
                         "# A model is many messages, and none may be lost.\nmax_queued_messages 0\n"
                         "# A letter has 4 MiB at most.\nmessage_size_limit 4259840\n",
                         whole.string(), address.substr(address.rfind(':') + 1), owner()));
}

}  // namespace chorus::inline fleet
