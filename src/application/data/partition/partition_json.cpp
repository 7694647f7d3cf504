#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "application/data/partition/partition_file.h"
#include "core/base/error.h"
#include "core/files/files.h"

namespace chorus::inline partition {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "chorus-partition-1";

Json load(const std::filesystem::path& path) {
  try {
    Json json = Json::parse(read_file(path));
    if (!json.is_object() || json.value("format", "") != kFormat || !json.contains("partitions") ||
        !json["partitions"].is_object()) {
      throw DataError(
          fmt::format("{}: JSON, but not a partition file: \"format\": \"{}\" is missing", path.string(), kFormat));
    }
    return json;
  } catch (const Json::parse_error& error) {
    throw DataError(
        fmt::format("{}: damaged: not valid JSON at byte {}; is the file complete?", path.string(), error.byte));
  }
}

std::vector<ExampleId> read_ids(const Json& list, const std::string& where) {
  if (!list.is_array()) throw DataError(fmt::format("{}: not a list of example ids", where));
  std::vector<ExampleId> ids;
  ids.reserve(list.size());
  for (const Json& item : list) {
    if (!item.is_number_integer() || item.get<std::int64_t>() < 0 ||
        item.get<std::int64_t>() >= std::numeric_limits<ExampleId>::max()) {
      throw DataError(fmt::format("{}: '{}' is not an example id", where, item.dump().substr(0, 40)));
    }
    ids.push_back(item.get<ExampleId>());
  }
  return ids;
}

std::string ids_text(std::span<const ExampleId> ids) { return fmt::format("[{}]", fmt::join(ids, ",")); }

/// One line per client: readable, with small diffs.
std::string group_text(const Partition& partition) {
  std::string text = fmt::format("{{\n\"info\": {},\n", partition_info_json(partition));
  if (!partition.clusters.empty()) text += fmt::format("\"clusters\": [{}],\n", fmt::join(partition.clusters, ","));
  text += "\"clients\": [";
  for (std::size_t c = 0; c < partition.clients(); ++c) {
    text += fmt::format("{}\n{{\"train\":{},\"test\":{}}}", c == 0 ? "" : ",", ids_text(partition.train[c]),
                        ids_text(partition.test[c]));
  }
  return text + "\n]\n}";
}

class JsonPartitions : public PartitionFormat {
 public:
  bool starts_like(std::string_view bytes) const override {
    const std::size_t first = bytes.find_first_not_of(" \t\r\n");
    return first != std::string_view::npos && bytes[first] == '{';
  }

  std::vector<std::string> groups(const std::filesystem::path& path) const override {
    std::vector<std::string> names;
    const Json json = load(path);
    for (const auto& [name, ignored] : json["partitions"].items()) names.push_back(name);
    std::sort(names.begin(), names.end());
    return names;
  }

  Partition read(const std::filesystem::path& path, const std::string& group) const override {
    const std::string where = fmt::format("{}, partition {}", path.string(), group);
    try {
      const Json json = load(path);
      const Json& entry = json.at("partitions").at(group);
      Partition partition;
      std::size_t client = 0;
      for (const Json& lists : entry.at("clients")) {
        const std::string place = fmt::format("{}, client {}", where, client++);
        partition.train.append(read_ids(lists.at("train"), place));
        partition.test.append(lists.contains("test") ? read_ids(lists.at("test"), place) : std::vector<ExampleId>{});
      }
      partition.info.group = group;
      partition.info.method = method_of_group(group);
      if (entry.contains("info")) read_partition_info(entry.at("info").dump(), partition, where);
      if (entry.contains("clusters")) partition.clusters = entry.at("clusters").get<std::vector<std::int32_t>>();
      return partition;
    } catch (const Json::exception& error) {
      throw DataError(fmt::format("{}: {}", where, error.what()));
    }
  }

  void write(const std::filesystem::path& path, const Partition& partition,
             const std::string& replaced) const override {
    AtomicFile file(path);
    file.write(fmt::format("{{\n\"format\": \"{}\",\n\"partitions\": {{\n", kFormat));
    if (std::filesystem::exists(path)) {
      for (const std::string& group : groups(path)) {
        if (group == replaced) continue;
        Partition other = read(path, group);
        file.write(fmt::format("{}: {},\n", Json(group).dump(), group_text(other)));
      }
    }
    file.write(fmt::format("{}: {}\n}}\n}}\n", Json(partition.info.group).dump(), group_text(partition)));
    file.commit();
  }
};

const Registration<PartitionFormats> kRegistered{"json", "lists of example ids as JSON, readable without HDF5",
                                                 [] { return std::make_unique<JsonPartitions>(); }};

}  // namespace
}  // namespace chorus::inline partition
