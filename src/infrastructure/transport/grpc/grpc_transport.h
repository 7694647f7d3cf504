#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/ports/transport.h"
#include "infrastructure/transport/grpc/credentials.h"
#include "infrastructure/transport/pace/frame_pace.h"

namespace chorus::inline transport_grpc {

/// Where the server is, how both ends authenticate, and the limits per peer.
struct GrpcConfig {
  std::string address = "127.0.0.1:0";        ///< host:port; port 0: a free one, for both ends in this process
  TlsFiles tls = {};                          ///< none: plaintext, loopback only
  std::string server_name = "chorus-server";  ///< the name in the server's certificate
  std::string revoked = "";                   ///< server: a file of serial numbers that must not connect
  double frame_limit = 2047;                  ///< MiB; a larger frame is refused before anything is allocated
  std::int64_t chunk = 256;                   ///< KiB
  double inbox = 256;                         ///< MiB of large frames a server assembles at once; at least one frame
  double spool = 65'536;                      ///< MiB of frames over 64 MiB, which lie in temporary files; 0: in memory
  std::string spool_in = "/var/tmp";          ///< the folder of these files
  double buffers = 512;                       ///< MiB of a server's packets, over all peers, that are not yet read
  double backlog = 4096;                      ///< MiB a server keeps for a peer that does not read before dropping it
  std::int64_t peers = 10'000;                ///< a server refuses more
  double grace = 30;                          ///< seconds a server waits for a lost peer to come back
  double stall = 60;                          ///< seconds a peer may pause within a frame, or be cut again and again
  double slowest = 16;                        ///< KiB/s of a peer's frame, on average after `stall` seconds; 0: any
  double keepalive = 20;                      ///< seconds between keepalive pings
  double retry = 30;    ///< longest pause in seconds between a client's attempts; the first is 0.1 s
  double patience = 0;  ///< seconds a client tries to reach the server; 0: for ever
  void describe(ConfigVisitor& visitor);

  PaceLimits pace() const { return {stall, slowest * (1U << 10U)}; }
  std::string spool_folder() const { return spool > 0 ? spool_in : ""; }
  std::size_t chunk_bytes() const { return static_cast<std::size_t>(chunk) << 10U; }
  std::size_t frame_bytes() const { return static_cast<std::size_t>(frame_limit * (1U << 20U)); }
};

/// Frames over a network: one long-lived gRPC stream per client process (proto/stream.proto). TLS 1.3 with client
/// certificates; the certificate's common name is the peer's identity, and only one process at a time may use it.
/// Without certificates it works on loopback only.
///
/// A frame travels in chunks, so each end holds a few chunks and the frame being assembled; a server assembles large
/// frames in temporary files, so that its memory does not grow with the number of updates that wait for each other. A
/// cut connection is resumed with back-off and jitter: unacknowledged frames are sent again, and none is delivered
/// twice. A server that does not hear from a peer for `grace` seconds reports that it left. A client's end is gone when
/// its server closes, restarts (another epoch) or has dropped it; connect again to join anew.
class GrpcTransport : public Transport {
 public:
  explicit GrpcTransport(GrpcConfig config);
  /// WorldError when the address cannot be bound.
  std::unique_ptr<ServerTransport> listen() override;
  /// Returns at once; the connection is made in the background.
  std::unique_ptr<ClientTransport> connect() override;
  /// Where the last `listen` was bound, or the configured address.
  const std::string& address() const { return config_.address; }

 private:
  GrpcConfig config_;
};

/// The two ends, each in its own file. `bound`: the address with the chosen port.
std::unique_ptr<ServerTransport> make_grpc_server(const GrpcConfig& config, std::string& bound);
std::unique_ptr<ClientTransport> make_grpc_client(const GrpcConfig& config);

}  // namespace chorus::inline transport_grpc
