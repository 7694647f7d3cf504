#include "infrastructure/hub/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <fstream>
#include <memory>
#include <vector>

#include "core/base/error.h"

namespace chorus::inline hub {
namespace {

std::string digest_of(const EVP_MD* kind, const std::string& before, const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw DataError(fmt::format("{}: cannot be read", path.string()));
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  bool fine = context != nullptr && EVP_DigestInit_ex(context.get(), kind, nullptr) == 1 &&
              EVP_DigestUpdate(context.get(), before.data(), before.size()) == 1;
  std::vector<char> buffer(std::size_t{1} << 20);
  while (fine && file) {
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    fine = EVP_DigestUpdate(context.get(), buffer.data(), static_cast<std::size_t>(file.gcount())) == 1;
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned size = 0;
  check(fine && EVP_DigestFinal_ex(context.get(), bytes.data(), &size) == 1, "a checksum cannot be computed");
  std::string text;
  for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

}  // namespace

std::string sha256_of_file(const std::filesystem::path& path) { return digest_of(EVP_sha256(), "", path); }

std::string git_name_of_file(const std::filesystem::path& path) {
  std::string before = fmt::format("blob {}", std::filesystem::file_size(path));
  before += '\0';
  return digest_of(EVP_sha1(), before, path);
}

}  // namespace chorus::inline hub
