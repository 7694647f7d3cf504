#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>

namespace chorus::inline readers {

/// The bytes of a file, decompressed when its content (not its name) is gzip, multiple members included. DataError when
/// the file is missing, a folder or unreadable, or its gzip data is damaged or truncated.
class ByteInput {
 public:
  explicit ByteInput(const std::filesystem::path& path);
  ByteInput(ByteInput&&) noexcept;
  ByteInput& operator=(ByteInput&&) noexcept;
  ~ByteInput();

  /// Reads up to `size` bytes; returns their number, 0 at the end.
  std::size_t read(char* to, std::size_t size);
  const std::filesystem::path& path() const { return path_; }

 private:
  struct Handle;
  std::filesystem::path path_;
  std::unique_ptr<Handle> handle_;
};

/// The first bytes of a file, decompressed, for guessing its format. Empty for a folder.
std::string file_head(const std::filesystem::path& path, std::size_t bytes = 65536);

}  // namespace chorus::inline readers
