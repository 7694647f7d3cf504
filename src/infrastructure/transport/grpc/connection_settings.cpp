#include "infrastructure/transport/grpc/connection_settings.h"

#include <grpcpp/grpcpp.h>

#include "infrastructure/transport/grpc/packet.h"

namespace chorus::inline transport_grpc {
namespace {

constexpr int kMostPacket = (4096 << 10) + static_cast<int>(kPacketOverhead);
constexpr double kHandshakeSeconds = 10;
constexpr int kFrameBytes = 1 << 20;      // of HTTP/2: fewer headers and calls than its default of 16 KiB
constexpr int kReadBytes = 1 << 20;       // from a socket at once
constexpr int kWriteBytes = 1 << 20;      // that wait for a socket
constexpr int kLookAheadBytes = 4 << 20;  // of a stream, before it must be read

int milliseconds(double seconds) { return static_cast<int>(seconds * 1000); }

template <typename Set>
void apply_common(const GrpcConfig& config, Set set) {
  set(GRPC_ARG_KEEPALIVE_TIME_MS, milliseconds(config.keepalive));
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, milliseconds(config.keepalive / 2));
  set(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  set(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kFrameBytes);
  set(GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, kWriteBytes);
  set(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kLookAheadBytes);
  set("grpc.experimental.tcp_max_read_chunk_size", kReadBytes);
}

}  // namespace

void apply_settings(const GrpcConfig& config, grpc::ServerBuilder& server) {
  apply_common(config, [&](const char* name, int value) { server.AddChannelArgument(name, value); });
  server.SetMaxReceiveMessageSize(kMostPacket);
  server.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  server.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 4);
  server.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);  // it would let every peer fill far more than is looked ahead
  server.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, milliseconds(kHandshakeSeconds));
  server.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 500);
  // gRPC 1.51 reads a whole message before it checks its size; the quota ends streams that would need more.
  grpc::ResourceQuota quota("chorus");
  server.SetResourceQuota(quota.Resize(static_cast<std::size_t>(config.buffers * (1U << 20U))));
}

void apply_settings(const GrpcConfig& config, grpc::ChannelArguments& client) {
  apply_common(config, [&](const char* name, int value) { client.SetInt(name, value); });
  client.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // every attempt is a new connection
  client.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);          // a proxy would see who talks to whom
  client.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);             // this transport resumes by itself
  client.SetMaxReceiveMessageSize(kMostPacket);
}

}  // namespace chorus::inline transport_grpc
