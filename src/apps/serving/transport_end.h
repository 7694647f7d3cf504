#pragma once

#include <memory>
#include <string>

#include "apps/experiment/experiment_config.h"
#include "core/ports/fleet.h"
#include "core/ports/transport.h"

namespace chorus::inline serving {

/// The two ends of a fleet's connections over the transport of that name, with the certificates of the fleet. Every
/// transport for machines that do not share memory has the settings address, certificate, key, authority, revoked,
/// and those of ServingConfig that are about messages. ConfigError for one that has not.
std::unique_ptr<ServerTransport> listen_at(const ServingConfig& config, const FleetEnd& end);
/// ConfigError when no transport for clients has that name.
void check_transport(const std::string& transport, const FleetEnd& end);
std::unique_ptr<ClientTransport> connect_to(const std::string& transport, const FleetEnd& end);

}  // namespace chorus::inline serving
