#include "infrastructure/emulation/device_profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/error.h"
#include "core/config/config.h"

namespace chorus::inline emulation {
namespace {

constexpr double kGigabyte = 1e9;

std::vector<std::int64_t> depths_of(const DepthTable& table) {
  if (!table.depths.empty()) return table.depths;
  std::vector<std::int64_t> depths(table.seconds.size());
  std::iota(depths.begin(), depths.end(), 0);
  return depths;
}

bool is_file(const std::string& text) {
  return text.find('/') != std::string::npos || text.ends_with(".yaml") || text.ends_with(".yml");
}

}  // namespace

void DepthTable::describe(ConfigVisitor& visitor) {
  visitor.field("depths", depths, "measured tuned depths, ascending; empty: 0, 1, 2, ...").at_least(0);
  visitor.field("seconds", seconds, "seconds per batch, one per depth").above(0);
  visitor.field("memory", memory, "peak GB, one per depth; empty: unknown").above(0);
  visitor.check([this]() -> std::string {
    if (!depths.empty() && depths.size() != seconds.size()) {
      return fmt::format("{} depths, but {} seconds; give one per depth", depths.size(), seconds.size());
    }
    if (!memory.empty() && memory.size() != seconds.size()) {
      return fmt::format("{} memory sizes, but {} seconds; give one per depth", memory.size(), seconds.size());
    }
    if (std::adjacent_find(depths.begin(), depths.end(), std::greater_equal<>()) != depths.end()) {
      return "depths must ascend";
    }
    return "";
  });
}

void DeviceProfile::describe(ConfigVisitor& visitor) {
  visitor.field("name", name, "name of the device").required().not_empty();
  visitor.field("model", model, "the timed model, for information");
  visitor.field("layers", layers, "layers of that model").at_least(1);
  visitor.field("batch_size", batch_size, "rows of a timed batch").at_least(1);
  visitor.field("sequence_length", sequence_length, "tokens of a timed row").at_least(1);
  visitor.field("full", full, "training whole layers from the top");
  visitor.field("full_cached", full_cached, "the same, with cached outputs of the frozen layers");
  visitor.field("adapter", adapter, "training adapters in the top layers");
  visitor.field("adapter_cached", adapter_cached, "the same, with cached outputs of the layers below");
  visitor.field("compute_watts", compute_watts, "power while computing, W").at_least(0);
  visitor.field("network_watts", network_watts, "power while sending or receiving, W").at_least(0);
  visitor.field("download", download, "MB/s (10^6 bytes per second)").above(0);
  visitor.field("upload", upload, "MB/s (10^6 bytes per second)").above(0);
  visitor.check([this]() -> std::string {
    if (full.empty() && full_cached.empty() && adapter.empty() && adapter_cached.empty()) {
      return "give the seconds of at least one way of training: full, full_cached, adapter or adapter_cached";
    }
    for (const DepthTable* table : {&full, &full_cached, &adapter, &adapter_cached}) {
      if (!table->empty() && depths_of(*table).back() > layers) {
        return fmt::format("depth {} of a model with {} layers", depths_of(*table).back(), layers);
      }
    }
    return "";
  });
}

const DepthTable& DeviceProfile::table(const TuningWay& way) const {
  if (way.method == TuningWay::Method::kFull) return way.cached ? full_cached : full;
  return way.cached ? adapter_cached : adapter;
}

DepthTable& DeviceProfile::table(const TuningWay& way) {
  return const_cast<DepthTable&>(std::as_const(*this).table(way));
}

DeviceProfile::Entry DeviceProfile::at(const TuningWay& way, double depth, std::int64_t model_layers,
                                       bool scale_depth) const {
  const DepthTable& rows = table(way);
  if (rows.empty()) {
    throw ConfigError(
        fmt::format("device profile {}: has no values for {} training; choose another profile, or "
                    "measure one with `chorus profile`",
                    name, name_of(way)));
  }
  if (!(depth >= 0) || depth > static_cast<double>(model_layers)) {
    throw ConfigError(
        fmt::format("device profile {}: depth {} exceeds the {} layers of the model", name, depth, model_layers));
  }
  if (model_layers != layers && !scale_depth) {
    throw ConfigError(fmt::format(
        "device profile {}: it is of a model with {} layers, and this one has {}; set emulation.scale_depth: true to "
        "take the same share of the layers, or measure this model with `chorus profile`",
        name, layers, model_layers));
  }
  const double wanted = scale_depth ? depth * static_cast<double>(layers) / static_cast<double>(model_layers) : depth;
  const std::vector<std::int64_t> depths = depths_of(rows);
  const auto above = std::find_if(depths.begin(), depths.end(),
                                  [&](std::int64_t d) { return static_cast<double>(d) >= wanted - 1e-9; });
  const auto high = static_cast<std::size_t>(above - depths.begin());
  const bool exact = above != depths.end() && std::abs(static_cast<double>(*above) - wanted) <= 1e-9;
  if (!exact && (!scale_depth || above == depths.end() || above == depths.begin())) {
    throw ConfigError(fmt::format("device profile {}: {} training has no depth {:g}; it has {}", name, name_of(way),
                                  wanted, fmt::join(depths, ", ")));
  }
  const std::size_t low = exact ? high : high - 1;
  const double share =
      exact ? 0 : (wanted - static_cast<double>(depths[low])) / static_cast<double>(depths[high] - depths[low]);
  const auto between = [&](const std::vector<double>& numbers) {
    return share == 0 ? numbers[low] : numbers[low] + share * (numbers[high] - numbers[low]);
  };
  Entry entry{between(rows.seconds), {}};
  if (!rows.memory.empty()) entry.memory = between(rows.memory) * kGigabyte;
  return entry;
}

DeviceProfile find_profile(const std::string& name_or_file) {
  if (!is_file(name_or_file)) return *DeviceProfiles::make(name_or_file);
  const auto document = ConfigDocument::read(name_or_file);
  if (const std::string kind = document.kind("device_profile"); kind != "device_profile") {
    throw ConfigError(fmt::format("{}: has kind {}, but a device profile has kind device_profile", name_or_file, kind));
  }
  return document.load<DeviceProfile>();
}

std::string name_of(const TuningWay& way) {
  return std::string(way.method == TuningWay::Method::kFull ? "full" : "adapter") + (way.cached ? ", cached" : "");
}

TuningWay way_named(const std::string& key) {
  for (const auto method : {TuningWay::Method::kFull, TuningWay::Method::kAdapter}) {
    const std::string plain = name_of({method, false});
    if (key == plain || key == plain + "_cached") return {method, key != plain};
  }
  throw ConfigError(fmt::format("unknown training method '{}'; use full, full_cached, adapter or adapter_cached", key));
}

namespace {

const ConfigRegistration<DeviceProfile> kRegisteredProfile{"device_profile", "how fast a device trains, for emulation"};

}  // namespace
}  // namespace chorus::inline emulation
