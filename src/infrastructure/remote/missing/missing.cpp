#include "core/config/registry.h"

namespace chorus::inline remote {
namespace {

const NameRegistration kMissing{
    {.kind = "link",
     .name = "wire",
     .summary = "a server and its clients that exchange frames over a transport",
     .unavailable = "it was built without protobuf (install libprotobuf-dev and protobuf-compiler, and build again)"}};

}  // namespace
}  // namespace chorus::inline remote
