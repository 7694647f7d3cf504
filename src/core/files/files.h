#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace chorus {

/// The whole file as bytes. DataError when it is missing, a folder, unreadable, or larger than `max_bytes` (a guard
/// for files that are parsed whole, such as a configuration). Reads pipes and devices too.
///
///     const std::string text = read_file("config.json");
std::string read_file(const std::filesystem::path& path,
                      std::uint64_t max_bytes = std::numeric_limits<std::uint64_t>::max());

/// Replaces the file in one step: whoever reads it sees the old bytes or the new ones, never a part, also after a
/// power cut. See AtomicFile for the errors.
void write_file(const std::filesystem::path& path, std::string_view bytes);

/// Writes a file piece by piece into a temporary one beside it (same folder, hidden), which `commit` syncs to disk and
/// renames into place. Without `commit` (an exception on the way) the temporary file is removed and the old file stays
/// as it was. A symbolic link is followed, permissions of an existing file are kept, and a target that is no regular
/// file (/dev/stdout, a pipe) is written directly. With kUnsynced, `commit` leaves the sync to the caller, who writes
/// many files and syncs once: the steps are still whole for every process, but a power cut may undo or empty them.
///
/// Throws DataError when the folder is missing or may not be written to, WorldError when the disk is full or fails.
/// Not thread-safe; two writers of one path are fine, the last commit wins.
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

  std::filesystem::path path_;       // as the caller named it: for messages
  std::filesystem::path target_;     // links resolved
  std::filesystem::path temporary_;  // empty: the target is written directly
  Durability durability_;
  int descriptor_ = -1;
};

/// A file's bytes, read-only, mapped into memory: the pages that are touched are the ones that are read. An empty file
/// is an empty span. DataError when it is missing, no regular file, or unreadable. The bytes live as long as this
/// object; it can be moved (the bytes keep their address). If someone truncates the file meanwhile, touching what was
/// cut off ends the program (SIGBUS): write files with AtomicFile, which never truncates.
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

}  // namespace chorus
