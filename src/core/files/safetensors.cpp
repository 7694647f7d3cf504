#include "core/files/safetensors.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/files/safetensors_header.h"

namespace chorus::inline files {

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) { return {path, MappedFile(path)}; }

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path, MappedFile file)
    : path_(path), file_(std::move(file)) {
  SafetensorsHeader header = parse_safetensors_header(file_.bytes(), path_.string());
  data_begin_ = header.data_begin;
  metadata_ = std::move(header.metadata);
  entries_.reserve(header.tensors.size());
  for (StoredTensor& tensor : header.tensors) {
    index_[tensor.name] = entries_.size();
    entries_.push_back(
        {std::move(tensor.name), scalar_type(tensor.type), std::move(tensor.shape), tensor.begin, tensor.end});
  }
}

const TensorEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

StoredView SafetensorsFile::view(const TensorEntry& entry) const {
  const TensorEntry* own = find(entry.name);
  check(own && own->begin == entry.begin && own->end == entry.end, "the entry is of another file");
  return {
      file_.bytes().subspan(data_begin_ + own->begin, own->end - own->begin), *stored_type(own->dtype), own->shape, {}};
}

at::Tensor SafetensorsFile::read(const TensorEntry& entry) const { return copy_of(view(entry)); }

void SafetensorsFile::read_into(const TensorEntry& entry, at::Tensor destination) const {
  if (destination.sizes() != at::IntArrayRef(entry.shape))
    throw DataError(fmt::format("{}: tensor '{}' has shape {}, but {} is needed", path_.string(), entry.name,
                                shape_text(entry.shape), shape_text(destination.sizes().vec())));
  copy_into(view(entry), std::move(destination));
}

void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata, Durability durability) {
  struct Item {
    StoredType type;
    const NamedTensor* tensor;
  };
  std::vector<Item> items;
  std::set<std::string_view> names;
  for (const NamedTensor& tensor : tensors) {
    const auto& [name, value] = tensor;
    check(value.defined(), fmt::format("tensor '{}' has no value to write", name));
    const auto type = stored_type(value.scalar_type());
    check(type.has_value(), fmt::format("tensor '{}' has a type that safetensors lacks", name));
    check(utf8::valid(name) && name != "__metadata__", fmt::format("'{}' cannot be the name of a tensor", name));
    check(names.insert(name).second, fmt::format("tensor '{}' is to be written twice", name));
    items.push_back({*type, &tensor});
  }
  for (const auto& [key, value] : metadata) check(utf8::valid(key) && utf8::valid(value), "metadata must be UTF-8");
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return a.type != b.type ? a.type > b.type : a.tensor->first < b.tensor->first;
  });

  std::vector<StoredTensor> stored;
  size_t end = 0;
  for (const Item& item : items) {
    const size_t begin = std::exchange(end, end + item.tensor->second.nbytes());
    stored.push_back({item.tensor->first, item.type, item.tensor->second.sizes().vec(), begin, end});
  }

  AtomicFile file(path, durability);
  file.write(format_safetensors_header(stored, metadata));
  for (const Item& item : items) {
    const at::Tensor value = item.tensor->second.detach().to(at::kCPU).contiguous();
    file.write(std::span(static_cast<const std::byte*>(value.data_ptr()), value.nbytes()));
  }
  file.commit();
}

}  // namespace chorus::inline files
