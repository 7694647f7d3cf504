#include "core/ports/tracker.h"

namespace chorus::inline tracking_tensorboard {
namespace {

const NameRegistration kMissing{
    {.kind = std::string(Tracker::kKind),
     .name = "tensorboard",
     .summary = "event files that TensorBoard shows",
     .unavailable = "it was built without protobuf (install libprotobuf-dev and protobuf-compiler and build again)"}};

}  // namespace
}  // namespace chorus::inline tracking_tensorboard
