#include "core/config/registry.h"

namespace chorus::inline compression {
namespace {

const NameRegistration kMissingZstd{
    {.kind = "filter",
     .name = "zstd",
     .summary = "entropy coding of what the other filters leave (Zstandard)",
     .unavailable = "it was built without zstd (install libzstd-dev, and build again)"}};

}  // namespace
}  // namespace chorus::inline compression
