#pragma once

#include <memory>
#include <string>

#include "core/ports/transport.h"

namespace chorus::inline tests {

/// A registered transport with its default settings. MQTT gets a broker for all tests of this process; null: mosquitto
/// is not installed.
std::unique_ptr<Transport> any_transport(const std::string& name);

}  // namespace chorus::inline tests
