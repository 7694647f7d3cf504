#include "core/config/registry.h"

namespace chorus::inline distributed_dp {
namespace {

const NameRegistration kMissingPrivateSum{
    {.kind = "aggregation",
     .name = "private_sum",
     .summary = "a secure sum with noise of the clients: user-level privacy against the server, too",
     .unavailable = "it was built without libsodium or OpenSSL (install both, and build again)"}};

}  // namespace
}  // namespace chorus::inline distributed_dp
