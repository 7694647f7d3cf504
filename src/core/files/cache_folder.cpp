#include "core/files/cache_folder.h"

#include <cstdlib>

namespace chorus::inline files {

std::filesystem::path cache_folder(const std::string& setting) {
  if (setting == "none") return {};
  if (setting != "auto") return setting;
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  if (xdg != nullptr && *xdg == '/') return std::filesystem::path(xdg) / "chorus";
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return std::filesystem::path(home) / ".cache" / "chorus";
  return {};
}

}  // namespace chorus::inline files
