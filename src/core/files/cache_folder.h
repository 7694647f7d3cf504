#pragma once

#include <filesystem>
#include <string>

namespace chorus {

/// Where things are kept that can be made again, by this setting: a folder; "auto": $XDG_CACHE_HOME/chorus, else
/// ~/.cache/chorus, else nowhere; "none": nowhere. Empty for nowhere. The folder need not exist.
///
///     const auto folder = cache_folder(config.cache);
std::filesystem::path cache_folder(const std::string& setting);

}  // namespace chorus
