#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "core/base/fingerprint.h"

namespace chorus {

/// Pieces of bytes that do not fit into memory, in one file that grows and is removed with this object. What is read is
/// checked: a piece that was damaged is told, never given back. A disk that is full ends the writing, not the program.
///
///     SpillFile spill(folder / "activations.bin");
///     const auto place = spill.append(bytes);            // nothing: could not be written
///     if (place && spill.read(*place, into)) ...
///
/// Not thread-safe.
class SpillFile {
 public:
  struct Place {
    std::uint64_t offset = 0, size = 0;
    Fingerprint print = {};
  };

  /// Makes the folder and an empty file; when that cannot be, every `append` says so.
  explicit SpillFile(const std::filesystem::path& path);
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;
  ~SpillFile();

  std::optional<Place> append(std::span<const std::byte> bytes);
  /// `into` has place.size bytes. False when the file was cut or changed.
  bool read(const Place& place, std::span<std::byte> into) const;

  std::uint64_t size() const { return size_; }
  /// Why nothing more can be written; empty while it can.
  const std::string& trouble() const { return trouble_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  std::string trouble_;
};

}  // namespace chorus
