#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace chorus::inline fleet {

/// Random bytes from the operating system, in hexadecimal.
std::string random_hex(std::size_t bytes);
/// SHA-256 in hexadecimal, of all parts as one text.
std::string digest_hex(std::span<const std::string_view> parts);
inline std::string digest_hex(std::string_view text) { return digest_hex(std::span(&text, 1)); }
/// Constant-time comparison.
bool same_secret(const std::string& a, const std::string& b);

/// Replaces a file atomically; only its owner can ever read it (mode 0600). DataError: the folder is missing or not
/// writable; WorldError: the disk is full.
void write_secret(const std::filesystem::path& path, std::string_view text);

/// The content of an invitation, as one word: NAME:SECRET:FINGERPRINT.
struct Token {
  std::string name;
  std::string secret;       ///< 32 hexadecimal digits
  std::string fingerprint;  ///< of the authority's certificate: SHA-256, 64 hexadecimal digits
  std::string text() const { return name + ":" + secret + ":" + fingerprint; }
};
/// ConfigError when it is incomplete.
Token parse_token(const std::string& text);

}  // namespace chorus::inline fleet
