#include "core/config/registry.h"

namespace chorus::inline example_dp {
namespace {

const NameRegistration kMissingSecretGuard{
    {.kind = "example_guard",
     .name = "secret",
     .summary = "samples and noise of trainer.privacy",
     .unavailable = "it was built without libsodium (install libsodium-dev, and build again)"}};

}  // namespace
}  // namespace chorus::inline example_dp
