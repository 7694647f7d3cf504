#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace chorus::inline fleet {

/// So many random bytes from the operating system, in hexadecimal.
std::string random_hex(std::size_t bytes);
/// SHA-256 in hexadecimal.
std::string digest_hex(std::string_view text);
/// Takes the same time wherever the texts differ.
bool same_secret(const std::string& a, const std::string& b);

/// Replaces a file atomically; only its owner can read it at any moment (mode 0600). DataError: the folder is missing
/// or not writable; WorldError: the disk is full.
void write_secret(const std::filesystem::path& path, std::string_view text);

/// What an invitation says, as one word: NAME:SECRET:FINGERPRINT.
struct Token {
  std::string name;
  std::string secret;       ///< 32 hexadecimal digits
  std::string fingerprint;  ///< of the authority's certificate: SHA-256, 64 hexadecimal digits
  std::string text() const { return name + ":" + secret + ":" + fingerprint; }
};
/// ConfigError when it was not copied completely.
Token parse_token(const std::string& text);

}  // namespace chorus::inline fleet
