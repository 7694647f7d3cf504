#include "core/config/registry.h"

namespace chorus::inline fleet {
namespace {

const NameRegistration kMissing{{.kind = "fleet",
                                 .name = "x509",
                                 .summary = "a private authority, and certificates for a server and its clients",
                                 .unavailable = "it was built without OpenSSL (install libssl-dev, and build again)"}};

}  // namespace
}  // namespace chorus::inline fleet
