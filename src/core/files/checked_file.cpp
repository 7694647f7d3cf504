#include "core/files/checked_file.h"

#include <system_error>

#include "core/base/error.h"
#include "core/base/fingerprint.h"
#include "core/console/log.h"
#include "core/files/files.h"

namespace chorus::inline files {

std::optional<std::string> read_checked(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  try {
    const std::string text = read_file(path);
    const std::string sum = Fingerprint().hex();
    if (text.size() < sum.size()) return std::nullopt;
    std::string bytes = text.substr(sum.size());
    if (text.compare(0, sum.size(), fingerprint(bytes).hex()) != 0) return std::nullopt;
    return bytes;
  } catch (const Error& problem) {
    Log("cache").debug("{}", problem.what());
    return std::nullopt;
  }
}

void write_checked(const std::filesystem::path& path, std::string_view bytes) {
  try {
    std::error_code ignored;  // the file cannot be written then
    std::filesystem::create_directories(path.parent_path(), ignored);
    AtomicFile file(path, Durability::kUnsynced);
    file.write(fingerprint(bytes).hex());
    file.write(bytes);
    file.commit();
  } catch (const Error& problem) {
    Log("cache").debug("{}", problem.what());
  }
}

}  // namespace chorus::inline files
