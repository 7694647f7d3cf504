#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/files.h"
#include "core/tensor/named_tensors.h"

namespace chorus::inline files {

/// One tensor of a file. `begin` and `end` are byte offsets after the header.
struct TensorEntry {
  std::string name;
  at::ScalarType dtype;
  std::vector<int64_t> shape;
  size_t begin, end;
};

/// A safetensors file, the format of named tensors on disk (weights, adapters, run checkpoints). It is memory-mapped,
/// so only tensors that are read cost time. The whole header is checked on opening (core/files/safetensors_header.h).
/// Reading is thread-safe. Non-finite elements are not checked here (first_non_finite).
///
///     const auto file = SafetensorsFile::open("model.safetensors");
///     if (const TensorEntry* entry = file.find("bert.pooler.dense.weight")) file.read_into(*entry, weight);
class SafetensorsFile {
 public:
  /// DataError when it cannot be read or its header is wrong.
  static SafetensorsFile open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const std::vector<TensorEntry>& entries() const { return entries_; }  ///< in file order
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  /// Null when absent. Lives as long as the file.
  const TensorEntry* find(std::string_view name) const;

  /// A CPU copy with the file's dtype.
  at::Tensor read(const TensorEntry& entry) const;

  /// Converts to the dtype and device of `destination` (copy_into). DataError when the shapes differ.
  void read_into(const TensorEntry& entry, at::Tensor destination) const;

  /// A view of the bytes, which live as long as the file.
  StoredView view(const TensorEntry& entry) const;

 private:
  SafetensorsFile(const std::filesystem::path& path, MappedFile file);

  std::filesystem::path path_;
  MappedFile file_;
  size_t data_begin_ = 0;
  std::vector<TensorEntry> entries_;
  std::map<std::string, size_t, std::less<>> index_;
  std::map<std::string, std::string> metadata_;
};

/// Writes a file, replacing an old one atomically, with the same bytes as the Python library: tensors sorted by type
/// and name, header padded to 8. Tensors may be strided and on any device; the data is not copied as a whole.
///
/// WorldError when the disk is full (the old file stays), DataError when the folder is missing, InternalError for a
/// name that is repeated, reserved or not UTF-8, or a dtype that the format lacks.
void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {},
                       Durability durability = Durability::kSynced);

}  // namespace chorus::inline files
