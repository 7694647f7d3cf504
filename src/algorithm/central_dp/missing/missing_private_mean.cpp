#include "core/config/registry.h"

namespace chorus::inline central_dp {
namespace {

const NameRegistration kMissingPrivateMean{
    {.kind = "aggregation",
     .name = "private_mean",
     .summary = "a clipped mean with noise: differential privacy for every client",
     .unavailable = "it was built without libsodium (install libsodium-dev, and build again)"}};

const NameRegistration kMissingDpFtrl{
    {.kind = "aggregation",
     .name = "dp_ftrl",
     .summary = "a clipped mean with correlated noise: user-level privacy without sampling",
     .unavailable = "it was built without libsodium (install libsodium-dev, and build again)"}};

}  // namespace
}  // namespace chorus::inline central_dp
