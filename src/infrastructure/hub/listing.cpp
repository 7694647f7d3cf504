#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/error.h"
#include "infrastructure/hub/hub.h"

namespace chorus::inline hub {
namespace {

using Json = nlohmann::json;

bool hexadecimal(const std::string& text, std::size_t size) {
  return text.size() == size &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

/// A plain path below its folder.
bool safe(const std::string& path) {
  if (path.empty() || path.size() > 500 || path.front() == '/') return false;
  std::string_view rest = path;
  while (true) {
    const std::string_view part = rest.substr(0, rest.find('/'));
    if (part.empty() || part == "." || part == "..") return false;
    for (const char c : part) {
      if (static_cast<unsigned char>(c) < 0x20 || c == '\\' || c == 0x7f) return false;
    }
    if (part.size() == rest.size()) return true;
    rest.remove_prefix(part.size() + 1);
  }
}

std::string text_at(const Json& json, const char* key) {
  return json.is_object() && json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : "";
}

std::uint64_t number_at(const Json& json, const char* key) {
  return json.is_object() && json.contains(key) && json[key].is_number_unsigned() ? json[key].get<std::uint64_t>() : 0;
}

}  // namespace

HubListing parse_listing(const std::string& text, const std::string& where) {
  const Json json = Json::parse(text, nullptr, false);
  HubListing listing{.commit = text_at(json, "sha"), .files = {}};
  if (!hexadecimal(listing.commit, 40) || !json.contains("siblings") || !json["siblings"].is_array()) {
    throw DataError(fmt::format("{}: is not a hub's answer about a model", where));
  }
  for (const Json& item : json["siblings"]) {
    HubFile file{.path = text_at(item, "rfilename"), .size = number_at(item, "size"), .id = text_at(item, "blobId")};
    if (!safe(file.path)) throw DataError(fmt::format("{}: names a file that is outside its folder", where));
    if (item.contains("lfs") && item["lfs"].is_object()) {
      file.large = true;
      file.id = text_at(item["lfs"], "sha256");
      file.size = number_at(item["lfs"], "size");
    }
    if (hexadecimal(file.id, file.large ? 64 : 40)) listing.files.push_back(std::move(file));
  }
  return listing;
}

std::vector<HubFile> needed_files(const HubListing& listing, const std::string& name) {
  const auto has = [&](const std::string& path) {
    return std::any_of(listing.files.begin(), listing.files.end(),
                       [&](const HubFile& file) { return file.path == path; });
  };
  const bool tensors = has("model.safetensors") || has("model.safetensors.index.json");
  if (!tensors && !has("pytorch_model.bin") && !has("pytorch_model.bin.index.json")) {
    throw DataError(fmt::format("{}: has no weights that Chorus reads (model.safetensors or pytorch_model.bin)", name));
  }
  std::vector<HubFile> needed;
  for (const HubFile& file : listing.files) {
    const std::string_view path = file.path;
    const std::size_t slash = path.find('/');
    if (slash != std::string_view::npos) {
      // A module of sentence-transformers: 1_Pooling/config.json, 2_Dense/model.safetensors.
      const bool module = path.front() >= '0' && path.front() <= '9' && path.find("_") < slash;
      if (module &&
          (path.ends_with(".json") || path.ends_with("/model.safetensors") || path.ends_with("/pytorch_model.bin"))) {
        needed.push_back(file);
      }
      continue;
    }
    const bool weights = path.ends_with(".safetensors") || path.ends_with(".bin");
    const bool wanted = weights ? (tensors ? path.starts_with("model") && path.ends_with(".safetensors")
                                           : path.starts_with("pytorch_model") && path.ends_with(".bin"))
                                : path.ends_with(".json") || path.ends_with(".txt") || path.ends_with(".model");
    if (wanted) needed.push_back(file);
  }
  return needed;
}

}  // namespace chorus::inline hub
