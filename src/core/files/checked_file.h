#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace chorus::inline files {

/// Reads a cache file that starts with a fingerprint of its bytes. Nothing if it is missing, unreadable or changed: the
/// caller makes it again.
///
///     if (const auto image = read_checked(path)) return *image;
///     write_checked(path, image = compile());
std::optional<std::string> read_checked(const std::filesystem::path& path);

/// Replaces the file atomically and creates its folder. A failure costs only time, so it is just a debug message.
void write_checked(const std::filesystem::path& path, std::string_view bytes);

}  // namespace chorus::inline files
