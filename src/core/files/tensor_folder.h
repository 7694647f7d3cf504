#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/files.h"
#include "core/files/safetensors.h"
#include "core/tensor/named_tensors.h"

namespace chorus::inline files {

/// Shape and dtype of a tensor that has not been read yet.
struct TensorInfo {
  std::vector<int64_t> shape;
  at::ScalarType dtype;
};

/// All tensors of a Hugging Face folder, from the first of these that exists, as transformers does:
/// `model.safetensors`; `model.safetensors.index.json` with its shards; `pytorch_model.bin`;
/// `pytorch_model.bin.index.json` with its shards. Files are mapped and fully checked on opening; elements are read on
/// demand, and nothing in a .bin file is executed (core/files/torch_pickle.h). Reading is thread-safe.
///
///     const auto source = TensorSource::open("../shared/models/chorus-mini");
///     for (const std::string& name : source.names()) ... source.find(name)->shape ...
class TensorSource {
 public:
  /// DataError when the folder has no weights, a shard is missing, a shard and the index disagree about its tensors, or
  /// the index names a file outside the folder.
  static TensorSource open(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return path_; }  ///< the file or the index
  std::vector<std::string> names() const;                      ///< sorted
  std::optional<TensorInfo> find(std::string_view name) const;

  /// A CPU copy with the file's dtype. DataError for an unknown name.
  at::Tensor read(std::string_view name) const;

  /// Converts to the dtype and device of `destination` (copy_into). DataError for an unknown name or another shape.
  void read_into(std::string_view name, at::Tensor destination) const;

 private:
  struct Stored {
    StoredView view;
    size_t file;  // index in paths_
  };

  void add_file(const std::filesystem::path& path);
  void add_shards(const std::filesystem::path& folder);
  const Stored& stored(std::string_view name) const;

  std::filesystem::path path_;
  std::vector<std::filesystem::path> paths_;
  std::vector<SafetensorsFile> files_;
  std::vector<MappedFile> pickles_;
  std::map<std::string, Stored, std::less<>> tensors_;
};

/// Writes the weights of a Hugging Face folder (which must exist): `model.safetensors` when they fit into
/// `max_shard_bytes`, else `model-00001-of-0000n.safetensors` and so on in the given order, with
/// `model.safetensors.index.json`. Each file is replaced atomically, the index last; older weights that would shadow
/// these or are no longer listed are then removed. Metadata is {"format": "pt"}, which transformers requires. Errors as
/// for write_safetensors.
void write_sharded(const std::filesystem::path& folder, std::span<const NamedTensor> tensors,
                   size_t max_shard_bytes = size_t{5} << 30);

}  // namespace chorus::inline files
