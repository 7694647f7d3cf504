#include "core/config/registry.h"

namespace chorus::inline local_dp {
namespace {

const char* const kWhy = "it was built without libsodium (install libsodium-dev, and build again)";
const NameRegistration kMissingGaussian{
    {.kind = "filter", .name = "local_gaussian", .summary = "clip and add Gaussian noise", .unavailable = kWhy}};
const NameRegistration kMissingLaplace{
    {.kind = "filter", .name = "local_laplace", .summary = "clip and add Laplace noise", .unavailable = kWhy}};
const NameRegistration kMissingLabelResponse{{.kind = "label_guard",
                                              .name = "randomized_response",
                                              .summary = "labels of trainer.label_epsilon",
                                              .unavailable = kWhy}};

}  // namespace
}  // namespace chorus::inline local_dp
