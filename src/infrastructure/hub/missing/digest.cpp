#include "infrastructure/hub/digest.h"

#include "core/base/error.h"

namespace chorus::inline hub {

std::string sha256_of_file(const std::filesystem::path&) {
  throw ConfigError(
      "this program was built without OpenSSL and cannot check downloads; install libssl-dev, then build again");
}

std::string git_name_of_file(const std::filesystem::path& path) { return sha256_of_file(path); }

}  // namespace chorus::inline hub
