#include "core/files/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "core/base/error.h"

namespace chorus::inline files {
namespace {

using nlohmann::json;

constexpr std::string_view kMetadata = "__metadata__";
constexpr int kDeepestHeader = 3;  // header, tensor, shape, size

static_assert(std::endian::native == std::endian::little, "safetensors is little endian");

/// Also rejects what nlohmann accepts: repeated keys, and deep nesting that only an attacker would write.
json parse_strictly(std::string_view text, const std::string& where) {
  if (text.empty() || text.front() != '{' || text.find('\0') != std::string_view::npos)
    throw DataError(fmt::format("{}: the header is not a JSON object, so this is not a safetensors file", where));
  std::vector<std::set<std::string>> keys(kDeepestHeader + 2);
  const auto watch = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > kDeepestHeader)
      throw DataError(fmt::format("{}: the header is nested too deeply for a list of tensors", where));
    const auto level = static_cast<size_t>(depth);
    if (event == json::parse_event_t::object_start) keys[level + 1].clear();
    if (event == json::parse_event_t::key && !keys[level].insert(value.get<std::string>()).second)
      throw DataError(fmt::format("{}: the header names {} twice", where, value.dump()));
    return true;
  };
  try {
    return json::parse(text, watch);
  } catch (const json::parse_error& e) {
    throw DataError(fmt::format("{}: the header is not valid JSON at byte {}; is the file complete?", where, e.byte));
  } catch (const json::out_of_range&) {
    throw DataError(fmt::format("{}: the header has a number that is too large", where));
  }
}

/// A JSON array of non-negative whole numbers.
template <typename T>
bool read_sizes(const json& value, std::vector<T>& out) {
  if (!value.is_array()) return false;
  for (const json& item : value) {
    if (!item.is_number_unsigned() || item.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return false;
    out.push_back(static_cast<T>(item.get<uint64_t>()));
  }
  return true;
}

StoredTensor read_tensor(const std::string& name, const json& value, const std::string& where) {
  const auto fail = [&](const std::string& what) {
    return DataError(fmt::format("{}: tensor '{}' {}", where, name, what));
  };
  if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") || !value.contains("data_offsets"))
    throw fail("lacks one of dtype, shape and data_offsets in the header");
  if (!value["dtype"].is_string()) throw fail("has a dtype that is not a string");

  StoredTensor tensor;
  tensor.name = name;
  const auto& dtype = value["dtype"].get_ref<const std::string&>();
  const auto type = stored_type(dtype);
  if (!type) throw fail(fmt::format("has dtype {}, which Chorus cannot read; convert it to F32, F16 or BF16", dtype));
  tensor.type = *type;

  if (!read_sizes(value["shape"], tensor.shape)) throw fail("has a shape that is not a list of sizes");
  std::vector<size_t> offsets;
  if (!read_sizes(value["data_offsets"], offsets) || offsets.size() != 2 || offsets[0] > offsets[1])
    throw fail("has data_offsets that are not [begin, end] with begin <= end");
  tensor.begin = offsets[0];
  tensor.end = offsets[1];

  const auto elements = elements_of(tensor.shape, tensor.type);
  if (!elements) throw fail(fmt::format("has the impossible shape {}", shape_text(tensor.shape)));
  const size_t needed = static_cast<size_t>(*elements) * bytes_of(tensor.type);
  if (tensor.end - tensor.begin != needed)
    throw fail(fmt::format("of shape {} and dtype {} needs {} bytes, but its data_offsets give {}",
                           shape_text(tensor.shape), dtype, needed, tensor.end - tensor.begin));
  return tensor;
}

void read_metadata(const json& value, const std::string& where, std::map<std::string, std::string>& out) {
  if (value.is_null()) return;
  if (!value.is_object()) throw DataError(fmt::format("{}: __metadata__ is not an object", where));
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) throw DataError(fmt::format("{}: __metadata__ '{}' is not a text", where, key));
    out[key] = text.get<std::string>();
  }
}

/// Every byte belongs to exactly one tensor.
void check_tiling(const std::vector<StoredTensor>& tensors, size_t available, const std::string& where) {
  size_t next = 0;
  std::string_view before;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.end > available)
      throw DataError(
          fmt::format("{}: tensor '{}' ends at byte {} but the file holds only {} after its header; it is "
                      "truncated, fetch it again",
                      where, tensor.name, tensor.end, available));
    if (tensor.begin < next)
      throw DataError(fmt::format("{}: tensors '{}' and '{}' overlap", where, before, tensor.name));
    if (tensor.begin > next)
      throw DataError(
          fmt::format("{}: {} bytes before tensor '{}' belong to no tensor", where, tensor.begin - next, tensor.name));
    next = tensor.end;
    before = tensor.name;
  }
  if (next != available)
    throw DataError(fmt::format("{}: {} bytes after the last tensor belong to no tensor", where, available - next));
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& where) {
  if (file.size() < 8)
    throw DataError(
        fmt::format("{}: {} bytes are too few for a safetensors file; it is empty or truncated, fetch it "
                    "again",
                    where, file.size()));
  uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  if (length > kMaxSafetensorsHeader)
    throw DataError(
        fmt::format("{}: the header would be {} bytes long, more than the {} allowed, so this is not a "
                    "safetensors file",
                    where, length, kMaxSafetensorsHeader));
  if (length > file.size() - 8)
    throw DataError(
        fmt::format("{}: the header should be {} bytes long but the file ends after {}; it is truncated, "
                    "fetch it again",
                    where, length, file.size() - 8));

  SafetensorsHeader header;
  header.data_begin = 8 + static_cast<size_t>(length);
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + 8, static_cast<size_t>(length));
  const json document = parse_strictly(text, where);
  for (const auto& [name, value] : document.items()) {
    if (name == kMetadata)
      read_metadata(value, where, header.metadata);
    else
      header.tensors.push_back(read_tensor(name, value, where));
  }
  std::sort(header.tensors.begin(), header.tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  check_tiling(header.tensors, file.size() - header.data_begin, where);
  return header;
}

std::string format_safetensors_header(std::span<const StoredTensor> tensors,
                                      const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json document = nlohmann::ordered_json::object();
  if (!metadata.empty()) document[std::string(kMetadata)] = metadata;
  std::string text = document.dump();
  text.pop_back();
  for (const StoredTensor& tensor : tensors) {
    const nlohmann::ordered_json value = {
        {"dtype", name_of(tensor.type)}, {"shape", tensor.shape}, {"data_offsets", {tensor.begin, tensor.end}}};
    if (text.size() > 1) text += ',';
    text += json(tensor.name).dump() + ':' + value.dump();
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + text;
}

}  // namespace chorus::inline files
