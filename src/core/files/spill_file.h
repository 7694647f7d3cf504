#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "core/base/fingerprint.h"

namespace chorus::inline files {

/// Byte blocks that do not fit into memory, in one growing file that is removed with this object. Reads are checked: a
/// damaged block is reported, never returned. A full disk ends the writing, not the program.
///
///     SpillFile spill(folder / "activations.bin");
///     const auto place = spill.append(bytes);            // nullopt: could not be written
///     if (place && spill.read(*place, into)) ...
///
/// Not thread-safe.
class SpillFile {
 public:
  struct Place {
    std::uint64_t offset = 0, size = 0;
    Fingerprint print = {};
  };

  /// Creates the folder and an empty file; when that fails, every `append` fails.
  explicit SpillFile(const std::filesystem::path& path);
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;
  ~SpillFile();

  std::optional<Place> append(std::span<const std::byte> bytes);
  /// `into` has place.size bytes. False when the file was truncated or changed.
  bool read(const Place& place, std::span<std::byte> into) const;

  std::uint64_t size() const { return size_; }
  /// Why writing stopped; empty while it works.
  const std::string& trouble() const { return trouble_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  std::string trouble_;
};

}  // namespace chorus::inline files
