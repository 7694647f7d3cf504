#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace chorus::inline files {

/// Reads a whole file. DataError when it is missing, a folder, unreadable or larger than `max_bytes` (a guard for files
/// that are parsed whole, such as a configuration). Pipes and devices work too.
///
///     const std::string text = read_file("config.json");
std::string read_file(const std::filesystem::path& path,
                      std::uint64_t max_bytes = std::numeric_limits<std::uint64_t>::max());

/// Replaces a file atomically: readers see the old or the new bytes, never a mixture, even after a power cut. Errors as
/// for AtomicFile.
void write_file(const std::filesystem::path& path, std::string_view bytes);

/// Writes to a hidden temporary file in the same folder, which `commit` syncs to disk and renames into place. Without
/// `commit` (an exception) the temporary file is removed and the old file is unchanged. Symbolic links are followed,
/// permissions of an existing file are kept, and a target that is not a regular file (/dev/stdout, a pipe) is written
/// directly. With kUnsynced, `commit` leaves the sync to the caller, who writes many files and syncs once: renames are
/// still atomic for every process, but a power cut may undo or empty them.
///
/// Throws DataError when the folder is missing or not writable, WorldError when the disk is full or fails. Not
/// thread-safe; with two writers of one path the last commit wins.
///
///     AtomicFile file(path);
///     file.write(header);
///     file.write(std::as_bytes(std::span(values)));
///     file.commit();
enum class Durability { kSynced, kUnsynced };

class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path, Durability durability = Durability::kSynced);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(std::string_view bytes);
  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  [[noreturn]] void fail(int error);

  std::filesystem::path path_;       // as given by the caller, for messages
  std::filesystem::path target_;     // links resolved
  std::filesystem::path temporary_;  // empty: the target is written directly
  Durability durability_;
  int descriptor_ = -1;
};

/// A file mapped into memory, read-only: only pages that are touched are read. An empty file is an empty span.
/// DataError when it is missing, not a regular file or unreadable. The bytes live as long as this object, which can be
/// moved (they keep their address). If another process truncates the file, touching the removed part kills the program
/// (SIGBUS): write files with AtomicFile, which never truncates.
///
///     const MappedFile file(path);
///     parse(file.text());
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::size_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }
  std::string_view text() const { return {static_cast<const char*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace chorus::inline files
