#include "infrastructure/fleet/enrolment.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/console/log.h"
#include "core/files/files.h"
#include "infrastructure/certificates/certificate.h"
#include "infrastructure/fleet/enrolment_messages.h"
#include "infrastructure/fleet/secret.h"
#include "infrastructure/fleet/tls_socket.h"

namespace chorus::inline fleet {
namespace {

using EnrolmentJson = nlohmann::ordered_json;

constexpr std::size_t kMostVisits = 16;
constexpr double kEnrolSeconds = 30;
constexpr int kPollMilliseconds = 100;

/// The answer to one request; `name` is who enrolled.
std::string answer(const EnrolmentServerInput& input, const std::string& line, std::string& name) {
  const auto refuse = [](const Failure& failure) {
    Log("fleet").warning("an enrolment was refused: {}", failure.message);
    return reply_text(failure);
  };
  const auto admission = read_admission(line);
  if (!admission.ok()) return refuse(admission.failure());
  const auto admitted = FleetFolder(input.folder).admit(admission.value(), input.now());
  if (!admitted.ok()) return refuse(admitted.failure());
  name = admission.value().name;
  return reply_text(admitted);
}

}  // namespace

EnrolmentServer::EnrolmentServer(EnrolmentServerInput input)
    : input_(std::move(input)), listener_(listen_at(input_.address)), acceptor_([this] { accept_all(); }) {}

EnrolmentServer::~EnrolmentServer() {
  closing_ = true;
  acceptor_.join();
  for (Visit& visit : visits_) visit.thread.join();
  ::close(listener_);
}

void EnrolmentServer::accept_all() {
  while (!closing_) {
    for (auto visit = visits_.begin(); visit != visits_.end();) {
      if (!visit->over) {
        ++visit;
        continue;
      }
      visit->thread.join();
      visit = visits_.erase(visit);
    }
    pollfd waiting{listener_, POLLIN, 0};
    if (visits_.size() >= kMostVisits) waiting.fd = -1;  // the operating system keeps a queue
    if (::poll(&waiting, 1, kPollMilliseconds) <= 0 || waiting.fd < 0) continue;
    const int socket = ::accept(listener_, nullptr, nullptr);
    if (socket < 0) continue;
    Visit& visit = visits_.emplace_back();
    visit.thread = std::thread([this, socket, &visit] {
      receive(socket);
      visit.over = true;
    });
  }
}

void EnrolmentServer::receive(int socket) {
  const Log log("fleet");
  try {
    const FleetFolder folder(input_.folder);
    auto client = TlsSocket::serve(
        socket,
        {(folder / "server.key").string(), (folder / "server.crt").string(), (folder / "authority.crt").string()},
        input_.seconds);
    if (!client.ok()) {
      log.debug("an enrolment failed: {}", client.failure().message);
      return;
    }
    const auto line = client.value().read_line();
    if (!line.ok()) {
      log.debug("an enrolment failed: {}", line.failure().message);
      return;
    }
    std::string name;
    const std::string reply = answer(input_, line.value(), name);
    (void)client.value().write_line(reply);
    if (!name.empty() && input_.joined) input_.joined(name);
  } catch (const std::exception& error) {
    log.error("an enrolment failed: {}", error.what());
  }
}

FleetIdentity enrol(const FleetEnrolment& enrolment, const TimeSource& now) {
  namespace fs = std::filesystem;
  const Token token = parse_token(enrolment.token);
  const fs::path& folder = enrolment.folder;
  if (fs::exists(folder / "fleet.json")) {
    throw ConfigError(
        fmt::format("{} holds the identity of a client already; name another folder, or remove it", folder.string()));
  }
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw DataError(fmt::format("{} cannot be created: {}", folder.string(), error.message()));
  fs::permissions(folder, fs::perms::owner_all);
  // The request of an attempt whose reply was lost is sent again, because the invitation counts for one request.
  const fs::path key_path = folder / "client.key", request_path = folder / "client.csr";
  if (!fs::exists(key_path) || !fs::exists(request_path)) {
    const std::string key = make_key();
    write_secret(key_path, key);
    write_file(request_path, make_request(key, token.name));
  }
  auto connection = TlsSocket::connect(enrolment.address, {token.fingerprint, kServerName}, kEnrolSeconds);
  if (!connection.ok() && connection.failure().kind != Failure::Kind::kRefused) {
    throw FleetUnreachable(connection.failure().message);
  }
  TlsSocket server = std::move(connection).value_or_throw();
  const std::string request = admission_text({token.name, token.secret, read_file(request_path), now()});
  if (enrolment.sending) enrolment.sending(request);
  if (!server.write_line(request)) {
    throw WorldError(fmt::format("{} closed the connection", enrolment.address));
  }
  const auto line = server.read_line();
  if (!line.ok()) {
    throw WorldError(
        fmt::format("{}: {}; is this the address of the invitation? Its port is one above that of the server",
                    enrolment.address, line.failure().message));
  }
  const auto reply = read_reply(line.value());
  if (!reply.ok()) {
    const bool refused = reply.failure().kind == Failure::Kind::kRefused;
    throw WorldError(refused ? fmt::format("{} refuses: {}", enrolment.address, reply.failure().message)
                             : fmt::format("the reply of {} cannot be read", enrolment.address));
  }
  const auto& [certificate, authority, address] = reply.value();
  const CertificateFacts facts = certificate_facts(certificate);
  if (certificate_facts(authority).fingerprint != token.fingerprint || facts.name != token.name ||
      !key_fits(read_file(key_path), certificate)) {
    throw WorldError(fmt::format("{} sent a certificate that is not ours", enrolment.address));
  }
  write_file(folder / "client.crt", certificate);
  write_file(folder / "authority.crt", authority);
  fs::remove(request_path, error);
  // Last: a folder with it is complete.
  write_file(
      folder / "fleet.json",
      EnrolmentJson{{"format", 1}, {"name", facts.name}, {"server", address}, {"invitation", digest_hex(token.secret)}}
              .dump(1) +
          "\n");
  return {facts.name, address, facts.until};
}

std::optional<FleetIdentity> read_identity(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "fleet.json";
  if (!std::filesystem::exists(path)) return std::nullopt;
  try {
    const auto json = EnrolmentJson::parse(read_file(path, 1U << 20U));
    return FleetIdentity{json.at("name"), json.at("server"),
                         certificate_facts(read_file(folder / "client.crt", 1U << 20U)).until};
  } catch (const EnrolmentJson::exception&) {
    throw DataError(
        fmt::format("{} is damaged, or not of a client; name another folder for the identity", path.string()));
  }
}

bool joined_with(const std::filesystem::path& folder, const std::string& token) {
  const auto json = EnrolmentJson::parse(read_file(folder / "fleet.json", 1U << 20U), nullptr, false);
  if (!json.is_object() || !json.contains("invitation") || !json["invitation"].is_string()) return true;
  return json["invitation"].get<std::string>() == digest_hex(parse_token(token).secret);
}

}  // namespace chorus::inline fleet
