#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/registry.h"

namespace chorus::inline emulation {

/// Costs of one training method by tuned depth, the number of top layers that train (0: only the head).
struct DepthTable {
  std::vector<std::int64_t> depths = {};  ///< measured depths, ascending; empty: 0, 1, 2, ...
  std::vector<double> seconds = {};       ///< per batch, forward and backward; one per depth
  std::vector<double> memory = {};        ///< peak GB; one per depth, or empty when unknown

  void describe(ConfigVisitor& visitor);
  bool empty() const { return seconds.empty(); }
};

/// What a client trains: whole layers from the top, or small modules in those layers. `cached`: the output of the
/// frozen layers below is cached from an earlier epoch or round (Cai et al. 2023, section 4).
struct TuningWay {
  enum class Method { kFull, kAdapter };
  Method method = Method::kFull;
  bool cached = false;
};

/// The speed of a kind of device: a YAML file of kind `device_profile` (docs/how-to/emulate_devices.md), a built-in one
/// (`chorus list device`), or the output of `chorus profile`.
///
///     const DeviceProfile nano = find_profile("jetson_nano");
///     nano.at({TuningWay::Method::kAdapter, true}, 2, 12).seconds;      // 0.36: a batch at depth 2 of 12
///
/// The values hold for batches of `batch_size` rows of `sequence_length` tokens; others are scaled by the number of
/// tokens (as in the published code of Cai et al. 2023: length 64 takes a quarter of length 256).
struct DeviceProfile {
  static constexpr std::string_view kKind = "device";

  std::string name = "device";
  std::string model = {};              ///< the timed model, for information
  std::int64_t layers = 12;            ///< of that model
  std::int64_t batch_size = 4;         ///< of the measured batches
  std::int64_t sequence_length = 256;  ///< of the measured batches
  DepthTable full = {}, full_cached = {}, adapter = {}, adapter_cached = {};
  double compute_watts = 12, network_watts = 4;  ///< Cai et al. 2023, section 6.3
  double download = 1, upload = 1;               ///< MB/s (10^6 bytes)

  void describe(ConfigVisitor& visitor);

  const DepthTable& table(const TuningWay& way) const;
  DepthTable& table(const TuningWay& way);

  struct Entry {
    double seconds = 0;                 ///< of one batch of the reference size
    std::optional<double> memory = {};  ///< bytes
  };
  /// The entry for `depth` of a model with `layers` layers. ConfigError when the table lacks that depth or is for
  /// another number of layers; with `scale_depth` such a model uses the entry at the same relative depth (depth /
  /// layers), interpolated between the two nearest measurements.
  Entry at(const TuningWay& way, double depth, std::int64_t layers, bool scale_depth = false) const;
};

using DeviceProfiles = Registry<DeviceProfile>;

/// By name, or from a file when the text contains '/' or ends in .yaml or .yml. ConfigError for an unknown name or a
/// mistake in the file; DataError when it cannot be read.
DeviceProfile find_profile(const std::string& name_or_file);

/// "adapter, cached".
std::string name_of(const TuningWay& way);
/// Parses a key of a profile: full, full_cached, adapter, adapter_cached. ConfigError for anything else.
TuningWay way_named(const std::string& key);

}  // namespace chorus::inline emulation
