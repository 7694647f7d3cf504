#include "core/config/registry.h"

namespace chorus::inline transport_mqtt {
namespace {

const NameRegistration kMissing{
    {.kind = "transport",
     .name = "mqtt",
     .summary = "through an MQTT broker, for devices that no server can reach",
     .unavailable = "it was built without Eclipse Paho (install libpaho-mqtt-dev, and build again)"}};

}  // namespace
}  // namespace chorus::inline transport_mqtt
