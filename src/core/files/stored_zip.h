#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

namespace chorus::inline files {

/// The members of an uncompressed zip file, as torch.save writes it: name -> bytes, which point into `file`. Supports
/// zip64. DataError starting with `where` for compressed, encrypted or repeated members, and for sizes or offsets
/// outside the file.
std::map<std::string, std::span<const std::byte>, std::less<>> read_stored_zip(std::span<const std::byte> file,
                                                                               const std::string& where);

}  // namespace chorus::inline files
