#include "infrastructure/fleet/fleet_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/error.h"
#include "core/console/log.h"
#include "core/files/files.h"
#include "infrastructure/certificates/certificate.h"
#include "infrastructure/fleet/broker_files.h"
#include "infrastructure/fleet/secret.h"

namespace chorus::inline fleet {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::time_t kDay = 86'400;
constexpr std::time_t kAuthorityDays = 3650;
constexpr std::time_t kBackdated = 600;  // seconds; tolerates clocks that are slightly slow
constexpr std::time_t kMostSkew = 300;   // seconds
constexpr std::size_t kSecretBytes = 16;

/// Held while members.json is read and replaced.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder)
      : file_(::open((folder / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    if (file_ < 0 || ::flock(file_, LOCK_EX) != 0) {
      throw DataError(fmt::format("{} cannot be locked; it must be writable", folder.string()));
    }
  }
  ~FolderLock() { ::close(file_); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int file_;
};

/// One entry of members.json.
struct Entry {
  std::string name;
  std::string token = {};  // digest of the invitation's secret; empty: no open invitation
  std::time_t token_until = 0;
  std::string used = {};  // digests of the last used secret and of its request
  std::string used_request = {};
  std::string certificate = {};           // empty: no valid certificate
  std::vector<std::string> revoked = {};  // serial numbers
};

Json to_json(const Entry& entry) {
  return {{"name", entry.name},
          {"token", entry.token},
          {"token_until", entry.token_until},
          {"used", entry.used},
          {"used_request", entry.used_request},
          {"certificate", entry.certificate},
          {"revoked", entry.revoked}};
}

DataError damaged(const fs::path& path) {
  return DataError(fmt::format("{} is damaged; put it back from a backup of the folder", path.string()));
}

Json read_json(const fs::path& path) {
  try {
    return Json::parse(read_file(path, 1U << 30U));
  } catch (const Json::exception&) {
    throw damaged(path);
  }
}

std::vector<Entry> read_entries(const fs::path& folder) {
  const fs::path path = folder / "members.json";
  const Json json = read_json(path);
  std::vector<Entry> entries;
  try {
    for (const Json& item : json.at("members")) {
      entries.push_back({item.at("name"), item.at("token"), item.at("token_until"), item.at("used"),
                         item.at("used_request"), item.at("certificate"), item.at("revoked")});
    }
  } catch (const Json::exception&) {
    throw damaged(path);
  }
  return entries;
}

/// False: the broker's list of revoked certificates could not be signed.
bool write_entries(BrokerInput broker, const std::vector<Entry>& entries) {
  Json json = {{"format", 1}, {"members", Json::array()}};
  std::string revoked;
  for (const Entry& entry : entries) {
    json["members"].push_back(to_json(entry));
    if (!entry.certificate.empty()) {
      broker.members.push_back({entry.name, certificate_facts(entry.certificate).until});
    } else if (!entry.revoked.empty()) {
      broker.members.push_back({entry.name});
    }
    for (const std::string& serial : entry.revoked) {
      revoked += serial + "\n";
      broker.revoked.push_back(serial);
    }
  }
  // The list first: a crash in between must not lose a revocation.
  write_file(broker.folder / "revoked", revoked);
  const bool listed = write_broker_files(broker);
  write_secret(broker.folder / "members.json", json.dump(1) + "\n");
  return listed;
}

Entry* find(std::vector<Entry>& entries, const std::string& name) {
  for (Entry& entry : entries) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

void drop_certificate(Entry& entry) {
  if (entry.certificate.empty()) return;
  entry.revoked.push_back(certificate_facts(entry.certificate).serial);
  entry.certificate.clear();
}

// Two certificates: as a server, and as a client of an MQTT broker.
void issue_server(const fs::path& folder, std::time_t now, std::time_t until) {
  for (const auto& [file, role] :
       {std::pair("server", CertificateRole::kServer), std::pair("server_as_client", CertificateRole::kClient)}) {
    const std::string key = make_key();
    const std::string certificate =
        sign_request({read_file(folder / "authority.crt"), read_file(folder / "authority.key"),
                      make_request(key, kServerName), kServerName, now - kBackdated, until, role});
    write_secret(folder / (std::string(file) + ".key"), key);
    write_file(folder / (std::string(file) + ".crt"), certificate);
  }
}

/// host:port with the enrolment port; nothing when it is not an address.
std::optional<std::string> next_port(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || address.size() - colon > 6 || colon + 1 == address.size()) return {};
  if (address.find_first_not_of("0123456789", colon + 1) != std::string::npos) return {};
  const int port = std::stoi(address.substr(colon + 1));
  if (port < 1 || port > 65534) return {};
  const std::string host = address.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.starts_with('[') && host.ends_with(']');
  const std::string name = bracketed ? host.substr(1, host.size() - 2) : host;
  if (name.find_first_of("[]") != std::string::npos || bracketed != (name.find(':') != std::string::npos)) return {};
  return fmt::format("{}:{}", host, port + 1);
}

std::string skew_text(std::time_t skew) {
  const double hours = std::abs(static_cast<double>(skew)) / 3600;
  const std::string size = hours >= 1 ? fmt::format("{:.0f} hours", hours) : fmt::format("{:.0f} minutes", hours * 60);
  return fmt::format("{} {} the server's", size, skew < 0 ? "behind" : "ahead of");
}

Failure refused(std::string why) { return {Failure::Kind::kRefused, std::move(why)}; }

}  // namespace

FleetFolder::FleetFolder(fs::path folder) : folder_(std::move(folder)) {
  const fs::path path = folder_ / "fleet.json";
  if (!fs::exists(path)) {
    throw DataError(fmt::format("{} holds no fleet; create one with: chorus fleet init {} --address HOST:PORT",
                                folder_.string(), folder_.string()));
  }
  try {
    const Json json = read_json(path);
    address_ = json.at("address");
    listen_ = json.value("listen", address_);
    days_ = json.at("days");
  } catch (const Json::exception&) {
    throw damaged(path);
  }
}

void FleetFolder::create(const FleetCreation& creation, std::time_t now) {
  const std::string& listen = creation.listen.empty() ? creation.address : creation.listen;
  for (const std::string& each : {creation.address, listen}) {
    if (next_port(each)) continue;
    throw ConfigError(
        fmt::format("the address is \"{}\"; it must be HOST:PORT, with a port from 1 to 65534, and an IPv6 address in "
                    "brackets, as in "
                    "[fd00::1]:7733",
                    each));
  }
  if (creation.address.starts_with("0.0.0.0:") || creation.address.starts_with("[::]:")) {
    throw ConfigError(fmt::format(
        "no client can reach \"{}\"; give the address that clients use with --address, and this one with --listen",
        creation.address));
  }
  if (creation.days < 1 || creation.days > kAuthorityDays) {
    throw ConfigError(fmt::format("days is {}; it must be 1 to {}", creation.days, kAuthorityDays));
  }
  const fs::path& folder = creation.folder;
  if (fs::exists(folder / "fleet.json") || fs::exists(folder / "authority.key")) {
    throw ConfigError(fmt::format("{} holds a fleet already; name another folder", folder.string()));
  }
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw DataError(fmt::format("{} cannot be created: {}", folder.string(), error.message()));
  fs::permissions(folder, fs::perms::owner_all);
  const std::string key = make_key();
  write_secret(folder / "authority.key", key);
  write_file(folder / "authority.crt",
             make_authority({key, "chorus-fleet-" + random_hex(4), now - kBackdated, now + kAuthorityDays * kDay}));
  issue_server(folder, now, now + creation.days * kDay);
  (void)write_entries({folder, creation.address, listen}, {});
  // Written last: a folder with it is complete.
  write_file(
      folder / "fleet.json",
      Json{{"format", 1}, {"address", creation.address}, {"listen", listen}, {"days", creation.days}}.dump(1) + "\n");
}

std::string FleetFolder::enrolment_address() const { return next_port(address_).value_or(address_); }
std::string FleetFolder::enrolment_listening_address() const { return next_port(listen_).value_or(listen_); }

FleetInvitation FleetFolder::invite(const std::string& name, double hours, std::time_t now) {
  if (!(hours > 0) || hours > 24 * 365) {
    throw ConfigError(
        fmt::format("an invitation is valid for {:g} hours; it must be more than 0 and at most a year", hours));
  }
  if (name == kServerName) throw ConfigError(fmt::format("{} is the server's name; choose another one", name));
  (void)make_request(make_key(), name);  // throws unless the name is valid in a certificate
  const FolderLock lock(folder_);
  std::vector<Entry> entries = read_entries(folder_);
  Entry* entry = find(entries, name);
  if (entry == nullptr) entry = &entries.emplace_back(Entry{.name = name});
  const Token token{name, random_hex(kSecretBytes),
                    certificate_facts(read_file(folder_ / "authority.crt")).fingerprint};
  entry->token = digest_hex(token.secret);
  entry->token_until = now + static_cast<std::time_t>(std::llround(hours * 3600));
  (void)write_entries({folder_, address_, listen_}, entries);
  return {enrolment_address(), token.text(), entry->token_until};
}

std::vector<FleetMember> FleetFolder::members(std::time_t now) const {
  std::vector<FleetMember> members;
  for (const Entry& entry : read_entries(folder_)) {
    FleetMember member{entry.name};
    if (!entry.certificate.empty()) {
      member.until = certificate_facts(entry.certificate).until;
      member.state = member.until < now ? FleetMember::State::kCertificateExpired : FleetMember::State::kJoined;
    } else if (!entry.token.empty()) {
      member.until = entry.token_until;
      member.state = member.until < now ? FleetMember::State::kInvitationExpired : FleetMember::State::kInvited;
    } else {
      member.state = FleetMember::State::kRevoked;
    }
    members.push_back(std::move(member));
  }
  return members;
}

void FleetFolder::revoke(const std::string& name) {
  const FolderLock lock(folder_);
  std::vector<Entry> entries = read_entries(folder_);
  Entry* entry = find(entries, name);
  if (entry == nullptr) {
    throw ConfigError(fmt::format("this fleet has no member {}; `chorus fleet list` shows its members", name));
  }
  const bool had_certificate = !entry->certificate.empty();
  drop_certificate(*entry);
  entry->token.clear();
  entry->used.clear();
  entry->used_request.clear();
  if (!write_entries({folder_, address_, listen_}, entries) && had_certificate) {
    Log("fleet").warning(
        "{0} is revoked at the server. If this fleet has an MQTT broker, put {1} back, which is missing or damaged, "
        "and "
        "run `chorus fleet rotate`: until then the broker accepts the certificate of {0}",
        name, (folder_ / "authority.key").string());
  }
}

std::time_t FleetFolder::rotate(std::time_t now) {
  const FolderLock lock(folder_);
  const std::time_t last = certificate_facts(read_file(folder_ / "authority.crt")).until;
  const std::time_t until = std::min(now + days_ * kDay, last);
  issue_server(folder_, now, until);
  (void)write_entries({folder_, address_, listen_}, read_entries(folder_));
  return until;
}

Result<Admitted> FleetFolder::admit(const Admission& admission, std::time_t now) {
  const std::string unknown = "the invitation is not valid; ask for a new one";
  const std::string digest = digest_hex(admission.secret), request = digest_hex(admission.request);
  const FolderLock lock(folder_);
  std::vector<Entry> entries = read_entries(folder_);
  Entry* entry = find(entries, admission.name);
  if (entry == nullptr) return refused(unknown);
  const std::string authority = read_file(folder_ / "authority.crt");
  if (!entry->used.empty() && same_secret(entry->used, digest)) {
    if (entry->used_request != request || entry->certificate.empty()) {
      return refused("the invitation was used already; ask for a new one");
    }
    return Admitted{entry->certificate, authority, address_};
  }
  if (entry->token.empty() || !same_secret(entry->token, digest)) return refused(unknown);
  if (now > entry->token_until) {
    return refused(fmt::format("the invitation expired on {}; ask for a new one", time_text(entry->token_until)));
  }
  const std::time_t skew = admission.time - now;
  if (std::abs(skew) > kMostSkew) {
    return refused(fmt::format("this machine's clock is {}; set it, and join again", skew_text(skew)));
  }
  const std::time_t until = std::min(now + days_ * kDay, certificate_facts(authority).until);
  std::string certificate;
  try {
    certificate = sign_request(
        {authority, read_file(folder_ / "authority.key"), admission.request, entry->name, now - kBackdated, until});
  } catch (const DataError& error) {
    return refused(error.what());
  }
  drop_certificate(*entry);
  entry->certificate = certificate;
  entry->used = std::exchange(entry->token, "");
  entry->used_request = request;
  (void)write_entries({folder_, address_, listen_}, entries);
  return Admitted{certificate, authority, address_};
}

}  // namespace chorus::inline fleet
