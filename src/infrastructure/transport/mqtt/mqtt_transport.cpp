#include "infrastructure/transport/mqtt/mqtt_transport.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "infrastructure/certificates/own_end.h"
#include "infrastructure/transport/mailbox/post.h"
#include "infrastructure/transport/mqtt/member_list.h"
#include "infrastructure/transport/mqtt/mqtt_mailbox.h"

namespace chorus::inline transport_mqtt {
namespace {

constexpr double kBrokerSeconds = 10;

constexpr double kKibi = 1U << 10U, kMebi = 1U << 20U;

MailConfig mail_config(const MqttConfig& config) {
  return {.chunk = static_cast<std::size_t>(config.chunk) << 10U,
          .frame_limit = static_cast<std::size_t>(config.frame_limit * kMebi),
          .patience = config.patience,
          .room = static_cast<std::size_t>(config.inbox * kMebi),
          .stall = config.stall,
          .slowest = config.slowest * kKibi,
          .peers = static_cast<std::size_t>(config.peers)};
}

const Registration<Transports, MqttConfig> kRegisteredMqtt{
    "mqtt", "through an MQTT broker, for devices that no server can reach",
    [](const MqttConfig& config) { return std::make_unique<MqttTransport>(config); }};

}  // namespace

void MqttConfig::describe(ConfigVisitor& visitor) {
  visitor.field("address", address, "host:port of the broker");
  visitor.field("certificate", certificate, "PEM file of this end; empty: plaintext, loopback only");
  visitor.field("key", key, "PEM file of its private key");
  visitor.field("authority", authority, "PEM file of the certificates that sign the broker's");
  visitor.field("revoked", revoked, "server: file that says until when each client may take part");
  visitor.field("chunk", chunk, "KiB of a message").at_least(1).at_most(4096);
  visitor.field("frame_limit", frame_limit, "MiB; larger frames are refused").above(0).at_most(2047);
  visitor.field("inbox", inbox, "server: MiB of large frames that are received at once").at_least(0);
  visitor.field("peers", peers, "server: largest number of client processes").at_least(1);
  visitor.field("stall", stall, "server: seconds a client may pause within a frame").above(0);
  visitor.field("slowest", slowest, "server: KiB/s of a frame, on average after `stall` seconds; 0: any").at_least(0);
  visitor.field("keepalive", keepalive, "seconds between signs of life").at_least(1).at_most(3600);
  visitor.field("grace", grace, "server: not used; the broker tells when a client is gone").at_least(0);
  visitor.field("retry", retry, "longest pause between two attempts to connect, in seconds").above(0);
  visitor.field("patience", patience, "client: seconds without a server before it gives up; 0: never").at_least(0);
}

MqttTransport::MqttTransport(MqttConfig config) : config_(std::move(config)) {
  if (config_.certificate.empty()) require_loopback(config_.address);
}

std::unique_ptr<ServerTransport> MqttTransport::listen() {
  if (!config_.certificate.empty()) (void)valid_certificate(config_.certificate);
  auto mailbox = std::make_unique<MqttMailbox>(MqttMailboxInput{
      config_, kMqttServer, kMqttServer, "chorus/all", encode_bye(kEverySession, Verdict::kOver), {"chorus/up/+"}});
  MqttMailbox& box = *mailbox;
  MailConfig mail = mail_config(config_);
  mail.refusal = [members = std::make_shared<MemberList>(config_.revoked)](const std::string& name) {
    return members->refusal(name);
  };
  auto server = make_mail_server(std::move(mailbox), mail);
  if (!box.wait_until_connected(kBrokerSeconds)) {
    throw WorldError(fmt::format("the broker at {} cannot be reached; is it running?", config_.address));
  }
  return server;
}

std::unique_ptr<ClientTransport> MqttTransport::connect() {
  const std::uint64_t session = new_session();
  const std::string name = config_.certificate.empty() ? fmt::format("anonymous-{:016x}", session)
                                                       : certificate_facts(valid_certificate(config_.certificate)).name;
  auto mailbox = std::make_unique<MqttMailbox>(MqttMailboxInput{config_,
                                                                name,
                                                                fmt::format("{}-{:016x}", name, session),
                                                                "chorus/up/" + name,
                                                                farewell(session),
                                                                {"chorus/down/" + name, "chorus/all"}});
  return make_mail_client(std::move(mailbox), mail_config(config_), session);
}

}  // namespace chorus::inline transport_mqtt
