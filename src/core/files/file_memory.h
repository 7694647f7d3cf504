#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace chorus::inline files {

/// Bytes that lie in a temporary file without a name, for values that are many and large and wait for each other, such
/// as updates of a cohort. They are written without passing through this process's memory and mapped to be read;
/// `forget_pages` gives the memory of what was read back. Space on the disk is reserved at once. A few files stay open
/// for the next values of their size: new ones cost more than the writing.
///
///     auto memory = FileMemory::create("/var/tmp", size);    // null: no space, or no such folder
///     while (...) memory->append(chunk);
///     use(memory->bytes());
class FileMemory {
 public:
  /// Null with `trouble` set when the file cannot be made.
  static std::shared_ptr<FileMemory> create(const std::filesystem::path& folder, std::size_t size,
                                            std::string& trouble);
  FileMemory(const FileMemory&) = delete;
  FileMemory& operator=(const FileMemory&) = delete;
  ~FileMemory();

  /// False: the disk failed, or the bytes are more than were reserved.
  [[nodiscard]] bool append(std::span<const std::string_view> pieces);
  [[nodiscard]] bool append(std::string_view bytes) { return append(std::span(&bytes, 1)); }
  std::size_t written() const { return written_; }
  /// What was written. The memory may be changed, and changes nothing but this object.
  std::string_view bytes() const { return {static_cast<const char*>(data_), written_}; }

 private:
  /// A mapped file.
  struct File {
    std::filesystem::path folder;
    std::size_t size = 0;
    int descriptor = -1;
    void* data = nullptr;
  };
  struct Idle;
  static Idle& idle();
  explicit FileMemory(File file) : file_(std::move(file)), data_(file_.data), size_(file_.size) {}
  File file_;
  void* data_;
  std::size_t size_, written_ = 0;
};

/// Whether these bytes lie in a FileMemory.
bool lies_in_file(const void* bytes);

/// The caller reads these bytes next: where they lie in a FileMemory, they are mapped at once instead of page by page.
void expect_pages(const void* begin, std::size_t bytes);

/// The caller has read these bytes and will not soon again. Where they lie in a FileMemory, their pages leave this
/// process's memory; other memory is not touched. Their values stay.
void forget_pages(const void* begin, std::size_t bytes);

}  // namespace chorus::inline files
