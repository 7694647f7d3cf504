#include "infrastructure/fleet/secret.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "core/base/error.h"

namespace chorus::inline fleet {
namespace {

constexpr std::size_t kSecretDigits = 32, kFingerprintDigits = 64;

std::string hex(const unsigned char* bytes, std::size_t size) {
  std::string text;
  for (std::size_t i = 0; i < size; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

bool is_hex(const std::string& text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

std::string random_hex(std::size_t bytes) {
  std::vector<unsigned char> random(bytes);
  check(RAND_bytes(random.data(), static_cast<int>(bytes)) == 1, "the operating system has no random numbers");
  return hex(random.data(), bytes);
}

std::string digest_hex(std::span<const std::string_view> parts) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  bool done = context && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  for (const std::string_view part : parts) {
    done = done && EVP_DigestUpdate(context.get(), part.data(), part.size()) == 1;
  }
  check(done && EVP_DigestFinal_ex(context.get(), digest, &size) == 1, "SHA-256 failed");
  return hex(digest, size);
}

bool same_secret(const std::string& a, const std::string& b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void write_secret(const std::filesystem::path& path, std::string_view text) {
  // Not an AtomicFile: others can open its temporary file for a moment, but not that of mkstemp.
  std::string temporary = path.string() + ".XXXXXX";
  const int file = ::mkstemp(temporary.data());
  if (file < 0) throw DataError(fmt::format("{} cannot be written: {}", path.string(), std::strerror(errno)));
  bool written = true;
  for (std::size_t done = 0; written && done < text.size();) {
    const ssize_t now = ::write(file, text.data() + done, text.size() - done);
    written = now > 0;
    if (written) done += static_cast<std::size_t>(now);
  }
  written = written && ::fsync(file) == 0;
  ::close(file);
  if (!written || ::rename(temporary.c_str(), path.c_str()) != 0) {
    const std::string why = std::strerror(errno);
    ::unlink(temporary.c_str());
    throw WorldError(fmt::format("{} cannot be written: {}", path.string(), why));
  }
}

Token parse_token(const std::string& text) {
  const std::size_t first = text.find(':'), second = text.find(':', first + 1);
  Token token;
  if (first != std::string::npos && second != std::string::npos) {
    token = {text.substr(0, first), text.substr(first + 1, second - first - 1), text.substr(second + 1)};
  }
  if (token.name.empty() || !is_hex(token.secret, kSecretDigits) || !is_hex(token.fingerprint, kFingerprintDigits)) {
    throw ConfigError("the token is not complete; copy the whole line that `chorus fleet invite` printed");
  }
  return token;
}

}  // namespace chorus::inline fleet
