#include "infrastructure/certificates/own_end.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/console/log.h"
#include "core/files/files.h"

namespace chorus::inline certificates {
namespace {

constexpr std::uint64_t kMostPem = 1U << 20U;

}  // namespace

void require_loopback(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  const bool numeric = host.find_first_not_of("0123456789.") == std::string::npos;
  const bool local = host == "localhost" || host == "[::1]" || (numeric && host.starts_with("127."));
  if (!local) {
    throw ConfigError(fmt::format(
        "{} is not on this machine, so the transport needs a certificate, a key and an authority; plaintext is "
        "for loopback only",
        address));
  }
  Log("transport").warning("{} is not encrypted, because both ends are on this machine", address);
}

std::string valid_certificate(const std::string& file) {
  std::string pem = read_file(file, kMostPem);
  CertificateFacts facts;
  try {
    facts = certificate_facts(pem);
  } catch (const DataError& error) {
    throw DataError(fmt::format("{}: {}; put it back from a backup, or enrol this machine again", file, error.what()));
  }
  const std::time_t now = std::time(nullptr);
  if (now < facts.from) {
    throw DataError(fmt::format("{} is valid from {}, but this machine's clock says {}; set the clock", file,
                                time_text(facts.from), time_text(now)));
  }
  if (certificate_expired(facts.until)) {
    throw DataError(
        fmt::format("{} expired on {}, and this machine's clock says {}; set the clock, or enrol this machine "
                    "again",
                    file, time_text(facts.until), time_text(now)));
  }
  return pem;
}

bool certificate_expired(std::time_t until) { return until != 0 && std::time(nullptr) > until; }

std::string expiry_text(std::time_t until) { return fmt::format("the certificate expired on {}", time_text(until)); }

}  // namespace chorus::inline certificates
