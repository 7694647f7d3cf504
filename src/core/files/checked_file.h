#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace chorus::inline files {

/// A file of a cache, with a fingerprint of its bytes in front. Nothing when it is missing, cannot be read, or its
/// bytes have changed: the caller makes them anew.
///
///     if (const auto image = read_checked(path)) return *image;
///     write_checked(path, image = compile());
std::optional<std::string> read_checked(const std::filesystem::path& path);

/// Replaces the file atomically and makes its folder. A cache that cannot be written costs time only, so a failure is a
/// debug message.
void write_checked(const std::filesystem::path& path, std::string_view bytes);

}  // namespace chorus::inline files
