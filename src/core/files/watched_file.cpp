#include "core/files/watched_file.h"

#include "core/base/error.h"
#include "core/console/log.h"
#include "core/files/files.h"

namespace chorus::inline files {
namespace {

constexpr auto kLookPause = std::chrono::milliseconds(500);

}  // namespace

std::optional<std::string> WatchedFile::news(bool at_once) {
  const auto now = std::chrono::steady_clock::now();
  if (path_.empty() || (!at_once && now - looked_ < kLookPause)) return std::nullopt;
  looked_ = now;
  std::error_code error;
  const auto changed = std::filesystem::last_write_time(path_, error);
  if (error || changed == changed_) return std::nullopt;
  try {
    std::string text = read_file(path_);
    changed_ = changed;
    return text;
  } catch (const Error& why) {
    Log("files").error("its last content stays in force: {}", why.what());
    return std::nullopt;
  }
}

}  // namespace chorus::inline files
