#include "infrastructure/transport/grpc/grpc_transport.h"

#include <fmt/format.h>
#include <grpc/support/log.h>

#include "core/base/error.h"
#include "core/console/log.h"
#include "infrastructure/certificates/own_end.h"

namespace chorus::inline transport_grpc {
namespace {

// This transport logs failures itself; gRPC's own messages, such as a failed handshake, are details of them.
void quiet_grpc() {
  gpr_set_log_function([](gpr_log_func_args* args) { Log("grpc").debug("{}", args->message); });
}

const Registration<Transports, GrpcConfig> kRegisteredGrpc{
    "grpc", "a network: one gRPC stream per client process, with TLS 1.3 and client certificates",
    [](const GrpcConfig& config) { return std::make_unique<GrpcTransport>(config); }};

}  // namespace

void GrpcConfig::describe(ConfigVisitor& visitor) {
  visitor.field("address", address, "host:port of the server; port 0: a free one");
  visitor.field("certificate", tls.certificate, "PEM file of this end; empty: plaintext, loopback only");
  visitor.field("key", tls.key, "PEM file of its private key");
  visitor.field("authority", tls.authority, "PEM file of the certificates that sign the other end's");
  visitor.field("server_name", server_name, "name in the server's certificate");
  visitor.field("revoked", revoked, "server: file of serial numbers that must not connect, one per line");
  visitor.field("frame_limit", frame_limit, "MiB; larger frames are refused").above(0).at_most(2047);
  visitor.field("chunk", chunk, "KiB that travel at once").at_least(1).at_most(4096);
  visitor.field("inbox", inbox, "server: MiB of large frames that are received at once").at_least(0);
  visitor.field("spool", spool, "server: MiB of frames over 64 MiB, which lie in temporary files; 0: in memory")
      .at_least(0);
  visitor.field("spool_in", spool_in, "server: the folder of these files");
  visitor.field("buffers", buffers, "server: MiB for packets of all peers before they are read").at_least(16);
  visitor.field("backlog", backlog, "server: MiB kept for a peer that does not read").above(0);
  visitor.field("peers", peers, "server: largest number of client processes").at_least(1);
  visitor.field("grace", grace, "server: seconds a lost peer has to come back").at_least(0);
  visitor.field("stall", stall, "seconds a peer may pause within a frame, or be cut again and again within it")
      .above(0);
  visitor.field("slowest", slowest, "server: KiB/s of a peer's frame, on average after `stall` seconds; 0: any")
      .at_least(0);
  visitor.field("keepalive", keepalive, "seconds between keepalive pings").at_least(1).at_most(3600);
  visitor.field("retry", retry, "client: longest pause between two attempts to connect, in seconds").above(0);
  visitor.field("patience", patience, "client: seconds without a server before it gives up; 0: never").at_least(0);
  visitor.check([this]() -> std::string {
    const bool some = !tls.certificate.empty() || !tls.key.empty() || !tls.authority.empty();
    const bool all = !tls.certificate.empty() && !tls.key.empty() && !tls.authority.empty();
    return some && !all ? "certificate, key and authority go together: give all three or none" : "";
  });
}

GrpcTransport::GrpcTransport(GrpcConfig config) : config_(std::move(config)) {
  if (config_.address.rfind(':') == std::string::npos) {
    throw ConfigError(fmt::format("address is {}; it must be host:port", config_.address));
  }
  if (!config_.tls.secure()) require_loopback(config_.address);
  quiet_grpc();
}

std::unique_ptr<ServerTransport> GrpcTransport::listen() {
  if (std::string trouble; config_.spool > 0 && !FileMemory::create(config_.spool_in, 1, trouble)) {
    Log("transport").warning("large messages are kept in memory: {}", trouble);
    config_.spool = 0;
  }
  std::string bound;
  auto server = make_grpc_server(config_, bound);
  config_.address = bound;
  return server;
}

std::unique_ptr<ClientTransport> GrpcTransport::connect() {
  check(!config_.address.ends_with(":0"), "a client needs to know the server's port");
  return make_grpc_client(config_);
}

}  // namespace chorus::inline transport_grpc
