#pragma once

#include "infrastructure/transport/grpc/grpc_transport.h"

namespace grpc {
class ChannelArguments;
class ServerBuilder;
}  // namespace grpc

namespace chorus::inline transport_grpc {

/// gRPC's settings of the two ends: sizes, keepalive, and limits for what a peer may send before it is read.
void apply_settings(const GrpcConfig& config, grpc::ServerBuilder& server);
void apply_settings(const GrpcConfig& config, grpc::ChannelArguments& client);

}  // namespace chorus::inline transport_grpc
