#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/ports/transport.h"

namespace chorus::inline transport_mqtt {

/// Where the broker is, and how this end proves who it is.
struct MqttConfig {
  std::string address = "127.0.0.1:1883";  ///< host:port of the broker
  std::string certificate = {};            ///< PEM file of this end; empty: plaintext, loopback only
  std::string key = {};                    ///< of its private key
  std::string authority = {};              ///< of the certificates that sign the broker's
  std::string revoked = {};                ///< server: a MemberList's file
  std::int64_t chunk = 256;                ///< KiB of a message
  double frame_limit = 2047;               ///< MiB; a larger frame is refused before anything is allocated
  double inbox = 256;                      ///< MiB of large frames a server gathers at once; at least one frame
  std::int64_t peers = 10'000;             ///< a server refuses more
  double stall = 60;                       ///< seconds a client may pause within a frame
  double slowest = 16;                     ///< KiB/s of a frame, on average after `stall` seconds; 0: any
  double keepalive = 20;                   ///< seconds between signs of life
  double grace = 30;                       ///< seconds after which a broker may report a silent client as gone
  double retry = 30;                       ///< the longest pause between two attempts to reach the broker, in seconds
  double patience = 0;                     ///< seconds a client waits for a server; 0: for ever
  void describe(ConfigVisitor& visitor);
};

/// Frames through an MQTT broker: for devices behind firewalls, and for fleets that have one already. A client named
/// NAME publishes to chorus/up/NAME and subscribes to chorus/down/NAME and chorus/all; the broker's rules (an ACL file
/// that `chorus fleet` writes) let it use no other topic, and the broker takes NAME from the client's certificate.
/// Messages have QoS 1: they may come twice, and are delivered once. A client's last will tells the server that it is
/// gone, the server's tells all clients. Who loses its connection to the broker joins anew. The server itself refuses
/// clients that are revoked or whose certificates have expired, and drops them within a second.
///
/// The broker sees every byte: it belongs to the server's side.
class MqttTransport : public Transport {
 public:
  explicit MqttTransport(MqttConfig config);
  /// WorldError when the broker cannot be reached within 10 seconds.
  std::unique_ptr<ServerTransport> listen() override;
  /// Returns at once; the connection is made in the background.
  std::unique_ptr<ClientTransport> connect() override;

 private:
  MqttConfig config_;
};

}  // namespace chorus::inline transport_mqtt
