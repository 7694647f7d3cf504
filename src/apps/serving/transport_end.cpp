#include "apps/serving/transport_end.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/config/config.h"

namespace chorus::inline serving {
namespace {

constexpr double kLongestPause = 10;  // seconds between a client's attempts

/// `server`: null for a client's end.
std::unique_ptr<Transport> make_transport(const std::string& name, const FleetEnd& end, const ServingConfig* server) {
  const RegistryEntry& entry = RegistryIndex::global().get(Transport::kKind, name);
  const auto config = entry.make_config();
  ConfigVisitor visitor;
  config->describe(visitor);
  const auto set = [&](const char* key, ConfigScalar value) {
    ConfigField* field = visitor.find(key);
    if (field == nullptr) {
      throw ConfigError(fmt::format("serving.transport: {} does not connect machines; use grpc", name));
    }
    field->set({{"", std::move(value)}});
  };
  const bool broker = server != nullptr && name == "mqtt";  // of which a server is a client, too
  set("address", server != nullptr && !broker ? end.listen : end.address);
  set("certificate", (broker ? end.client_certificate : end.certificate).string());
  set("key", (broker ? end.client_key : end.key).string());
  set("authority", end.authority.string());
  if (server != nullptr) {
    set("revoked", (broker ? end.broker_members : end.revoked).string());
    set("grace", server->grace);
    set("slowest", server->slowest);
    set("stall", server->stall);
    set("peers", server->peers);
    set("inbox", server->inbox);
    set("frame_limit", server->frame_limit);
    set("keepalive", server->keepalive);
    set("chunk", server->chunk);
    if (visitor.find("spool_in") != nullptr) set("spool_in", server->spool);
  } else {
    set("retry", kLongestPause);
  }
  return Transports::make_with(name, *config);
}

}  // namespace

std::unique_ptr<ServerTransport> listen_at(const ServingConfig& config, const FleetEnd& end) {
  return make_transport(config.transport, end, &config)->listen();
}

void check_transport(const std::string& transport, const FleetEnd& end) {
  (void)make_transport(transport, end, nullptr);
}

std::unique_ptr<ClientTransport> connect_to(const std::string& transport, const FleetEnd& end) {
  return make_transport(transport, end, nullptr)->connect();
}

}  // namespace chorus::inline serving
