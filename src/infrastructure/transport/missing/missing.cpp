#include "core/config/registry.h"

namespace chorus {
namespace {

const NameRegistration kMissing{
    {.kind = "transport",
     .name = "inproc",
     .summary = "messages become bytes and come back, in this process",
     .unavailable = "it was built without protobuf (install libprotobuf-dev and protobuf-compiler, and build again)"}};

}  // namespace
}  // namespace chorus
