#include "application/data/partition/partition_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "application/data/partition/partitioner.h"
#include "core/base/error.h"
#include "core/base/nearest.h"

namespace chorus::inline partition {
namespace {

/// HDF5 may put a user block of 512, 1024, ... bytes before its signature.
constexpr std::size_t kOpeningBytes = 4096;

std::unique_ptr<PartitionFormat> format_of_content(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    throw DataError(fmt::format("{}: is a folder; name a partition file", path.string()));
  }
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    throw DataError(fmt::format("{}: cannot be read: {}", path.string(), std::strerror(errno)));
  }
  std::string opening(kOpeningBytes, '\0');
  stream.read(opening.data(), static_cast<std::streamsize>(opening.size()));
  opening.resize(static_cast<std::size_t>(stream.gcount()));
  for (const std::string& name : PartitionFormats::names()) {
    auto format = PartitionFormats::make(name);
    if (format->starts_like(opening)) return format;
  }
  const bool hdf5 = opening.find("\x89HDF\r\n") != std::string::npos;
  if (hdf5) PartitionFormats::make("h5");  // throws with the reason when this build lacks it
  throw DataError(fmt::format("{}: not a partition file: it is {}", path.string(),
                              opening.empty() ? "empty" : "neither HDF5 nor a JSON object"));
}

std::unique_ptr<PartitionFormat> format_of_name(const std::filesystem::path& path) {
  const std::string ending = path.extension().string();
  if (ending == ".h5" || ending == ".hdf5") return PartitionFormats::make("h5");
  if (ending == ".json") return PartitionFormats::make("json");
  throw ConfigError(
      fmt::format("{}: unknown format; partition files end in .h5 (HDF5, like FedNLP's) or .json", path.string()));
}

bool is_number(std::string_view text, double& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

std::string kind_of(std::string_view canonical) {
  return std::string(canonical.substr(0, canonical.find("_clients=")));
}

}  // namespace

std::string canonical_group(std::string_view group) {
  std::string result;
  for (bool first = true; !group.empty(); first = false) {
    const std::size_t cut = group.find('_');
    std::string_view piece = group.substr(0, cut);
    group = cut == std::string_view::npos ? std::string_view{} : group.substr(cut + 1);
    if (!first) result += '_';
    const std::size_t equals = piece.find('=');
    double value = 0;
    if (equals != std::string_view::npos && is_number(piece.substr(equals + 1), value)) {
      result += fmt::format("{}={}", piece.substr(0, equals), name_number(value));
    } else if (result == "kmeans_" && is_number(piece, value)) {
      result += fmt::format("clusters={}", name_number(value));
    } else {
      result += first && piece == "nature" ? "natural" : piece;
    }
  }
  return result;
}

std::string find_group(const std::vector<std::string>& groups, std::string_view wanted) {
  if (std::find(groups.begin(), groups.end(), wanted) != groups.end()) return std::string(wanted);
  const std::string canonical = canonical_group(wanted);
  for (const std::string& group : groups) {
    if (canonical_group(group) == canonical) return group;
  }
  std::vector<std::string> alike;
  for (const std::string& group : groups) {
    const std::string other = canonical_group(group);
    const bool open =
        kind_of(canonical) == canonical || kind_of(other) == other;  // one of them lacks its number of clients
    if (open && kind_of(other) == kind_of(canonical)) alike.push_back(group);
  }
  return alike.size() == 1 ? alike.front() : "";
}

std::string method_of_group(std::string_view group) {
  const std::string canonical = canonical_group(group);
  const std::pair<const char*, const char*> known[] = {
      {"niid_label_quantity_", "label_quantity"},
      {"niid_label_", "label_dirichlet"},
      {"niid_quantity_", "quantity_dirichlet"},
      {"niid_cluster_", "feature_clusters"},
      {"niid_class_", "class_dirichlet"},
      {"niid_shards_", "shards"},
      {"kmeans", "kmeans"},
      {"natural", "natural"},
      {"temporal", "temporal"},
      {"uniform", "uniform"},
  };
  for (const auto& [prefix, method] : known) {
    if (canonical.starts_with(prefix)) return method;
  }
  return "";
}

std::vector<std::string> partition_groups(const std::filesystem::path& path) {
  return format_of_content(path)->groups(path);
}

Partition read_partition(const std::filesystem::path& path, const std::string& group) {
  const auto format = format_of_content(path);
  const std::vector<std::string> groups = format->groups(path);
  if (groups.empty()) throw DataError(fmt::format("{}: holds no partition", path.string()));
  if (group.empty() && groups.size() > 1) {
    throw DataError(fmt::format("{}: holds {} partitions; choose one with --group: {}", path.string(), groups.size(),
                                fmt::join(groups, ", ")));
  }
  const std::string found = group.empty() ? groups.front() : find_group(groups, group);
  if (found.empty()) {
    throw DataError(fmt::format("{}: unknown partition '{}'{} (it has: {})", path.string(), group,
                                did_you_mean(group, groups), fmt::join(groups, ", ")));
  }
  return format->read(path, found);
}

void write_partition(const std::filesystem::path& path, const Partition& partition, bool replace) {
  const auto format = format_of_name(path);
  if (partition.info.group.empty() || partition.info.group.find('/') != std::string::npos) {
    throw ConfigError(fmt::format("'{}' cannot be the name of a partition", partition.info.group));
  }
  check(partition.train.clients() == partition.test.clients(), "train and test must have the same clients");
  const FolderLock lock(path);
  std::string replaced;
  if (std::filesystem::exists(path)) {
    const std::vector<std::string> groups = format->groups(path);
    const std::string canonical = canonical_group(partition.info.group);
    for (const std::string& group : groups) {
      if (canonical_group(group) == canonical) replaced = group;
    }
    if (!replaced.empty() && !replace) {
      throw ConfigError(
          fmt::format("{}: the partition '{}' already exists; use --force to replace it, or --name for another",
                      path.string(), replaced));
    }
  }
  format->write(path, partition, replaced);
}

std::string partition_info_json(const Partition& partition) {
  nlohmann::ordered_json json;
  json["method"] = partition.info.method;
  if (partition.info.seed) json["seed"] = *partition.info.seed;
  for (const auto& [name, value] : partition.info.numbers) json["numbers"][name] = value;
  for (const auto& [name, value] : partition.info.choices) json["choices"][name] = value;
  if (!partition.client_names.empty()) json["client_names"] = partition.client_names;
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void read_partition_info(std::string_view text, Partition& partition, const std::string& where) {
  try {
    const auto json = nlohmann::json::parse(text);
    partition.info.method = json.value("method", partition.info.method);
    if (json.contains("seed")) partition.info.seed = json.at("seed").get<std::uint64_t>();
    if (json.contains("numbers")) {
      for (const auto& [name, value] : json.at("numbers").items()) partition.info.numbers[name] = value.get<double>();
    }
    if (json.contains("choices")) {
      for (const auto& [name, value] : json.at("choices").items()) {
        partition.info.choices[name] = value.get<std::string>();
      }
    }
    if (json.contains("client_names")) {
      partition.client_names = json.at("client_names").get<std::vector<std::string>>();
    }
  } catch (const nlohmann::json::exception&) {
    throw DataError(
        fmt::format("{}: the partition's description is damaged: a value is missing or of the wrong kind", where));
  }
  if (!partition.client_names.empty() && partition.client_names.size() != partition.clients()) {
    throw DataError(
        fmt::format("{}: {} client names for {} clients", where, partition.client_names.size(), partition.clients()));
  }
}

FolderLock::FolderLock(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  descriptor_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ < 0) {
    throw DataError(
        fmt::format("{}: cannot be written: folder {}: {}", path.string(), folder.string(), std::strerror(errno)));
  }
  // Without locks (some file systems) continue: the file is still replaced atomically.
  while (::flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
  }
}

FolderLock::~FolderLock() { ::close(descriptor_); }

}  // namespace chorus::inline partition
