#include "core/config/registry.h"

namespace chorus::inline secure_mean {
namespace {

constexpr const char* kUnavailable = "it was built without libsodium or OpenSSL (install both, and build again)";

const NameRegistration kMissingSecAgg{
    {.kind = "aggregation", .name = "secagg", .summary = "a secure sum", .unavailable = kUnavailable}};
const NameRegistration kMissingSecAggPlus{
    {.kind = "aggregation", .name = "secagg_plus", .summary = "a secure sum", .unavailable = kUnavailable}};
const NameRegistration kMissingLight{
    {.kind = "aggregation", .name = "light_secagg", .summary = "a secure sum", .unavailable = kUnavailable}};
const NameRegistration kMissingGroups{{.kind = "aggregation",
                                       .name = "secure_groups",
                                       .summary = "a robust rule over secure sums of random groups",
                                       .unavailable = kUnavailable}};

}  // namespace
}  // namespace chorus::inline secure_mean
