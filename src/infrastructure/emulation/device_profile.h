#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/registry.h"

namespace chorus {

/// What a device needs for one way of training, by tuned depth: how many of the top layers train (0: only the head).
struct DepthTable {
  std::vector<std::int64_t> depths = {};  ///< those that were measured, rising; empty: 0, 1, 2, ...
  std::vector<double> seconds = {};       ///< of one batch, forward and backward; one a depth
  std::vector<double> memory = {};        ///< GB at the peak; one a depth, or nothing when it is not known

  void describe(ConfigVisitor& visitor);
  bool empty() const { return seconds.empty(); }
};

/// The way a client trains: everything from some layer upwards, or small modules in those layers. `cached`: what the
/// frozen layers below give was kept from an earlier epoch or round (paper 003, section 4).
struct TuningWay {
  enum class Method { kFull, kAdapter };
  Method method = Method::kFull;
  bool cached = false;
};

/// How fast one kind of device is: a YAML file of kind `device_profile` (docs/emulation.md), a built-in one
/// (`chorus list device`), or what `chorus profile` measured.
///
///     const DeviceProfile nano = find_profile("jetson_nano");
///     nano.at({TuningWay::Method::kAdapter, true}, 2, 12).seconds;      // 0.36: a batch at depth 2 of 12
///
/// The numbers hold for batches of `batch_size` rows of `sequence_length` tokens; others are scaled by the number of
/// tokens (as the published code of paper 003 does: length 64 takes a quarter of length 256).
struct DeviceProfile {
  static constexpr std::string_view kKind = "device";

  std::string name = "device";
  std::string model = {};              ///< what was timed, for people
  std::int64_t layers = 12;            ///< of that model
  std::int64_t batch_size = 4;         ///< of the numbers
  std::int64_t sequence_length = 256;  ///< of the numbers
  DepthTable full = {}, full_cached = {}, adapter = {}, adapter_cached = {};
  double compute_watts = 12, network_watts = 4;  ///< paper 003, section 6.3
  double download = 1, upload = 1;               ///< MB/s (10^6 bytes)

  void describe(ConfigVisitor& visitor);

  const DepthTable& table(const TuningWay& way) const;
  DepthTable& table(const TuningWay& way);

  struct Entry {
    double seconds = 0;                 ///< of one batch of the reference size
    std::optional<double> memory = {};  ///< bytes
  };
  /// The entry for `depth` of a model with `layers` layers. ConfigError when the table has no such depth, or is of a
  /// model with another number of layers; with `scale_depth` such a model takes the entry at the same relative depth
  /// (depth / layers), interpolated between the two nearest that were measured.
  Entry at(const TuningWay& way, double depth, std::int64_t layers, bool scale_depth = false) const;
};

using DeviceProfiles = Registry<DeviceProfile>;

/// By name, or from a file when the text has a '/' or ends in .yaml or .yml. ConfigError for an unknown name or a
/// mistake in the file; DataError when it cannot be read.
DeviceProfile find_profile(const std::string& name_or_file);

/// "adapter, cached".
std::string name_of(const TuningWay& way);
/// The way whose key in a profile this is: full, full_cached, adapter, adapter_cached. ConfigError for another word.
TuningWay way_named(const std::string& key);

}  // namespace chorus
