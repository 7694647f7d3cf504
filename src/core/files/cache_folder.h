#pragma once

#include <filesystem>
#include <string>

namespace chorus::inline files {

/// The cache folder for a setting: a path; "auto" for $XDG_CACHE_HOME/chorus, else ~/.cache/chorus; "none" for no
/// cache. Empty when there is none. The folder need not exist.
///
///     const auto folder = cache_folder(config.cache);
std::filesystem::path cache_folder(const std::string& setting);

}  // namespace chorus::inline files
