#include "core/config/registry.h"

namespace chorus::inline transport_grpc {
namespace {

const NameRegistration kMissing{
    {.kind = "transport",
     .name = "grpc",
     .summary = "a network: one gRPC stream per client process, with TLS 1.3 and client certificates",
     .unavailable = "it was built without gRPC (install libgrpc++-dev, libssl-dev, libprotobuf-dev and "
                    "protobuf-compiler, and build again)"}};

}  // namespace
}  // namespace chorus::inline transport_grpc
