#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

namespace chorus {

/// The members of a zip file that was written without compression, as torch.save does it: name -> bytes, which point
/// into `file`. Large files (zip64) too. Refuses, with a DataError that starts with `where`, compressed or encrypted or
/// repeated members, and any size or offset that leaves the file.
std::map<std::string, std::span<const std::byte>, std::less<>> read_stored_zip(std::span<const std::byte> file,
                                                                               const std::string& where);

}  // namespace chorus
