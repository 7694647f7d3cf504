#include "apps/serving/transport_end.h"

#include <fmt/format.h>

#include <optional>

#include "core/base/error.h"
#include "core/config/config.h"

namespace chorus::inline serving {
namespace {

constexpr double kLongestPause = 10;  // seconds between a client's attempts

std::unique_ptr<Transport> make_transport(const std::string& name, const FleetEnd& end, std::optional<double> grace) {
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
  set("address", end.address);
  const bool broker = grace && name == "mqtt";  // of which a server is a client, too
  set("certificate", (broker ? end.client_certificate : end.certificate).string());
  set("key", (broker ? end.client_key : end.key).string());
  set("authority", end.authority.string());
  if (grace) {
    set("revoked", end.revoked.string());
    set("grace", *grace);
  } else {
    set("retry", kLongestPause);
  }
  return Transports::make_with(name, *config);
}

}  // namespace

std::unique_ptr<ServerTransport> listen_at(const std::string& transport, const FleetEnd& end, double grace) {
  return make_transport(transport, end, grace)->listen();
}

std::unique_ptr<ClientTransport> connect_to(const std::string& transport, const FleetEnd& end) {
  return make_transport(transport, end, std::nullopt)->connect();
}

}  // namespace chorus::inline serving
