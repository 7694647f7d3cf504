#include "infrastructure/tracking/report/run_process.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <fstream>
#include <sstream>
#include <string>

namespace chorus::inline report {

// A line of /proc/locks: "3: FLOCK  ADVISORY  WRITE 4242 08:01:1311 0 EOF", with device and file in hexadecimal and
// decimal numbers.
std::optional<std::int64_t> process_of_run(const std::filesystem::path& folder) {
  struct stat lock {};
  if (::stat((folder / "lock").c_str(), &lock) != 0) return std::nullopt;
  const std::string file = fmt::format("{:02x}:{:02x}:{}", major(lock.st_dev), minor(lock.st_dev), lock.st_ino);
  std::ifstream locks("/proc/locks");
  std::optional<std::int64_t> by_number;
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, advisory, access, where;
    std::int64_t process = 0;
    if (!(words >> number >> kind >> advisory >> access >> process >> where) || kind != "FLOCK" || process <= 0)
      continue;
    if (where == file) return process;
    // Overlay and network file systems give stat another device than the lock has; the file's number and an open
    // descriptor tell then.
    if (!where.ends_with(fmt::format(":{}", lock.st_ino))) continue;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", process), error)) {
      if (std::filesystem::equivalent(entry.path(), folder / "lock", error) && !error) by_number = process;
    }
  }
  return by_number;
}

bool process_is_paused(std::int64_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');  // "4242 (chorus) T ..."
  return name_end != std::string::npos && name_end + 2 < text.size() && text[name_end + 2] == 'T';
}

}  // namespace chorus::inline report
