#pragma once

#include <filesystem>
#include <string>

namespace chorus::inline hub {

/// SHA-256 of a file, hexadecimal. ConfigError where the program was built without OpenSSL.
std::string sha256_of_file(const std::filesystem::path& path);

/// What git calls a file of this content: SHA-1 of "blob SIZE\0" and its bytes, hexadecimal.
std::string git_name_of_file(const std::filesystem::path& path);

}  // namespace chorus::inline hub
