#include "core/config/registry.h"

namespace chorus::inline serving {
namespace {

const NameRegistration kMissing{
    {.kind = "deployment",
     .name = "processes",
     .summary = "a server and clients on other machines",
     .unavailable = "it was built without protobuf or OpenSSL (install libprotobuf-dev, protobuf-compiler and "
                    "libssl-dev, and build again)"}};

}  // namespace
}  // namespace chorus::inline serving
