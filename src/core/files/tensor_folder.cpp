#include "core/files/tensor_folder.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/files/torch_pickle.h"

namespace chorus::inline files {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kSingle = "model.safetensors";
constexpr std::string_view kIndex = "model.safetensors.index.json";
constexpr uint64_t kMaxIndex = 100'000'000;

bool present(const fs::path& path) {
  std::error_code ignored;  // an unreadable folder is reported when the file is opened
  return fs::exists(path, ignored);
}

/// name -> shard, from an index file.
std::map<std::string, std::string> read_index(const fs::path& path) {
  json document;
  try {
    document = json::parse(read_file(path, kMaxIndex));
  } catch (const json::parse_error& e) {
    throw DataError(fmt::format("{}: not valid JSON at byte {}; is the file complete?", path.string(), e.byte));
  } catch (const json::out_of_range&) {
    throw DataError(fmt::format("{}: has a number that is too large", path.string()));
  }
  if (!document.is_object() || !document.contains("weight_map") || !document["weight_map"].is_object())
    throw DataError(fmt::format("{}: \"weight_map\", which maps tensors to files, is missing", path.string()));
  std::map<std::string, std::string> out;
  for (const auto& [name, shard] : document["weight_map"].items()) {
    if (!shard.is_string())
      throw DataError(fmt::format("{}: weight_map '{}' does not give the name of a file", path.string(), name));
    const auto& file = shard.get_ref<const std::string&>();
    if (file.empty() || file == "." || file == ".." || file.find_first_of(std::string_view("/\\\0", 3)) != file.npos)
      throw DataError(fmt::format("{}: weight_map '{}' names the file {}, which is not in this folder", path.string(),
                                  name, shard.dump()));
    out[name] = file;
  }
  if (out.empty()) throw DataError(fmt::format("{}: the weight_map is empty", path.string()));
  return out;
}

bool is_weights_file(std::string_view name) {
  constexpr std::string_view kShard = "model-00001-of-00002.safetensors";
  return name == kSingle || name == kIndex ||
         (name.size() == kShard.size() && name.starts_with("model-") && name.substr(11, 4) == "-of-" &&
          name.ends_with(".safetensors"));
}

/// Weights of an earlier write that this one replaces: a stale single file would be read instead of new shards.
void remove_stale(const fs::path& folder, const std::set<std::string>& written) {
  std::error_code error;
  std::vector<fs::path> stale;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (is_weights_file(name) && !written.contains(name)) stale.push_back(entry->path());
  }
  for (size_t i = 0; i < stale.size() && !error; ++i) fs::remove(stale[i], error);
  if (error)
    throw WorldError(fmt::format("{}: could not remove the weights that the new ones replace ({})", folder.string(),
                                 error.message()));
}

}  // namespace

TensorSource TensorSource::open(const fs::path& folder) {
  TensorSource source;
  for (const std::string_view name :
       {kSingle, kIndex, std::string_view("pytorch_model.bin"), std::string_view("pytorch_model.bin.index.json")}) {
    source.path_ = folder / name;
    if (!present(source.path_)) continue;
    if (name.ends_with(".json"))
      source.add_shards(folder);
    else
      source.add_file(source.path_);
    return source;
  }
  if (!present(folder)) throw DataError(fmt::format("{}: there is no such folder", folder.string()));
  throw DataError(
      fmt::format("{}: the folder has no weights: neither model.safetensors nor pytorch_model.bin, nor an "
                  "index of shards",
                  folder.string()));
}

void TensorSource::add_file(const fs::path& path) {
  const size_t file = paths_.size();
  paths_.push_back(path);
  const auto add = [&](const std::string& name, StoredView view) {
    if (!tensors_.emplace(name, Stored{std::move(view), file}).second)
      throw DataError(fmt::format("{}: tensor '{}' is in another shard too", path.string(), name));
  };
  if (path.extension() == ".safetensors") {
    const auto& opened = files_.emplace_back(SafetensorsFile::open(path));
    for (const TensorEntry& entry : opened.entries()) add(entry.name, opened.view(entry));
  } else {
    const auto& opened = pickles_.emplace_back(path);
    for (PickledTensor& tensor : parse_torch_checkpoint(opened.bytes(), path.string()))
      add(tensor.name, {tensor.bytes, tensor.type, std::move(tensor.shape), std::move(tensor.strides)});
  }
}

void TensorSource::add_shards(const fs::path& folder) {
  const auto weight_map = read_index(path_);
  std::set<std::string> shards;
  for (const auto& [name, shard] : weight_map) shards.insert(shard);
  for (const std::string& shard : shards) {
    if (!present(folder / shard))
      throw DataError(fmt::format("{}: the shard {} is missing; fetch it again", path_.string(), shard));
    add_file(folder / shard);
  }
  for (const auto& [name, shard] : weight_map) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end() || paths_[found->second.file].filename() != shard)
      throw DataError(fmt::format("{}: tensor '{}' should be in {}, which lacks it", path_.string(), name, shard));
  }
  for (const auto& [name, stored] : tensors_) {
    if (!weight_map.contains(name))
      throw DataError(fmt::format("{}: tensor '{}' of {} is not in the weight_map", path_.string(), name,
                                  paths_[stored.file].filename().string()));
  }
}

std::vector<std::string> TensorSource::names() const {
  std::vector<std::string> out;
  for (const auto& [name, stored] : tensors_) out.push_back(name);
  return out;
}

std::optional<TensorInfo> TensorSource::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return std::nullopt;
  return TensorInfo{found->second.view.shape, scalar_type(found->second.view.type)};
}

const TensorSource::Stored& TensorSource::stored(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) throw DataError(fmt::format("{}: there is no tensor '{}'", path_.string(), name));
  return found->second;
}

at::Tensor TensorSource::read(std::string_view name) const { return copy_of(stored(name).view); }

void TensorSource::read_into(std::string_view name, at::Tensor destination) const {
  const Stored& from = stored(name);
  if (destination.sizes() != at::IntArrayRef(from.view.shape))
    throw DataError(fmt::format("{}: tensor '{}' has shape {}, but {} is needed", paths_[from.file].string(), name,
                                shape_text(from.view.shape), shape_text(destination.sizes().vec())));
  copy_into(from.view, std::move(destination));
}

void write_sharded(const fs::path& folder, std::span<const NamedTensor> tensors, size_t max_shard_bytes) {
  const std::map<std::string, std::string> metadata = {{"format", "pt"}};
  std::vector<std::span<const NamedTensor>> shards;
  size_t begin = 0, shard_bytes = 0, total = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const size_t bytes = tensors[i].second.nbytes();
    if (i > begin && shard_bytes + bytes > max_shard_bytes) {
      shards.push_back(tensors.subspan(begin, i - begin));
      begin = i;
      shard_bytes = 0;
    }
    shard_bytes += bytes;
    total += bytes;
  }
  shards.push_back(tensors.subspan(begin));
  if (shards.size() == 1) {
    write_safetensors(folder / kSingle, tensors, metadata);
    return remove_stale(folder, {std::string(kSingle)});
  }

  json index = {{"metadata", {{"total_size", total}}}, {"weight_map", json::object()}};
  std::set<std::string> written = {std::string(kIndex)};
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string file = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    write_safetensors(folder / file, shards[i], metadata);
    written.insert(file);
    for (const NamedTensor& tensor : shards[i]) index["weight_map"][tensor.first] = file;
  }
  check(index["weight_map"].size() == tensors.size(), "a tensor is to be written twice");
  write_file(folder / kIndex, index.dump(2) + "\n");
  remove_stale(folder, written);
}

}  // namespace chorus::inline files
