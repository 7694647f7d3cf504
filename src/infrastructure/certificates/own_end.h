#pragma once

#include <ctime>
#include <string>

#include "infrastructure/certificates/certificate.h"

namespace chorus::inline certificates {

/// What every transport between machines checks of its own end.
///
/// ConfigError unless both ends of `address` (host:port) are on this machine: plaintext is for loopback only, and the
/// log says that it is used.
void require_loopback(const std::string& address);

/// The text of a PEM file. DataError: it cannot be read, or is not valid at this machine's time.
std::string valid_certificate(const std::string& file);

inline constexpr const char* kRevokedText =
    "the certificate is revoked; ask the fleet's owner for a new invitation to take part again";

/// Whether its time has passed; never for 0.
bool certificate_expired(std::time_t until);
/// "the certificate expired on 2026-11-16 23:05 UTC"
std::string expiry_text(std::time_t until);

}  // namespace chorus::inline certificates
