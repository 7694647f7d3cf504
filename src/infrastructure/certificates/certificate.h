#pragma once

#include <ctime>
#include <string>
#include <vector>

namespace chorus::inline certificates {

/// X.509 certificates as PEM texts, for a private authority with one level: it signs the server's and the clients'
/// certificates itself. Keys are on the curve P-256, signatures use SHA-256, serial numbers are 127 random bits.
///
///     const std::string root_key = make_key(), root = make_authority({root_key, "fleet", from, until});
///     const std::string key = make_key();
///     const std::string mine = sign_request({root, root_key, make_request(key, "clinic"), "clinic", from, until});

/// A new private key.
std::string make_key();

struct AuthorityInput {
  const std::string& key;
  std::string name;
  std::time_t from, until;  ///< it is valid
};
/// A self-signed certificate that may sign those of servers and clients.
std::string make_authority(const AuthorityInput& input);

/// A request for a certificate (PKCS #10), which proves that the sender has the key.
std::string make_request(const std::string& key, const std::string& name);

enum class CertificateRole { kClient, kServer };

struct SignInput {
  const std::string& authority;
  const std::string& authority_key;
  const std::string& request;  ///< only its key is used
  std::string name;            ///< name in the certificate; the request's name is ignored
  std::time_t from, until;
  CertificateRole role = CertificateRole::kClient;
};
/// DataError: the request is damaged, or not signed by its own key.
std::string sign_request(const SignInput& input);

struct RevocationInput {
  const std::string& authority;
  const std::string& authority_key;
  std::vector<std::string> serials;  ///< hexadecimal, as in CertificateFacts
  std::time_t from, until;           ///< the list is valid
};
/// The list of certificates that an authority has revoked (CRL version 2, RFC 5280 section 5), for programs that know
/// nothing of a fleet, such as a broker. `from` is also its number, so a newer list has a larger one. DataError: the
/// key is not the authority's, or a serial number is not hexadecimal.
std::string make_revocations(const RevocationInput& input);

struct CertificateFacts {
  std::string name;    ///< common name
  std::string serial;  ///< hexadecimal
  std::time_t from = 0, until = 0;
  std::string fingerprint;  ///< SHA-256 of the whole certificate, hexadecimal
};
/// DataError when the text is not a certificate.
CertificateFacts certificate_facts(const std::string& pem);

/// Whether a private key belongs to a certificate.
bool key_fits(const std::string& key, const std::string& certificate);

/// "2026-11-16 23:05 UTC", for messages.
std::string time_text(std::time_t time);

}  // namespace chorus::inline certificates
