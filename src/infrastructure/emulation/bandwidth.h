#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/base/client_id.h"
#include "infrastructure/emulation/cost_model.h"

namespace chorus::inline emulation {

/// Speed of the clients' links, in MB/s (10^6 bytes per second).
struct BandwidthConfig {
  enum class Kind {
    kProfile,    ///< from the client's device profile
    kConstant,   ///< the same for all
    kLognormal,  ///< drawn once per client around a median
    kTrace       ///< changes over the emulated time, from a file
  };
  Kind kind = Kind::kProfile;
  double down = 1, up = 1;  ///< constant speeds, or medians of lognormal
  double sigma = 0.5;       ///< lognormal: standard deviation of the logarithm
  std::string trace = {};   ///< the file (BandwidthTrace), for both directions
  bool shift = true;        ///< each client starts at its own offset in the trace

  void describe(ConfigVisitor& visitor);
};

/// Speed over time, from a file: lines `seconds,mbps` after that header, seconds ascending from 0, MB/s not negative. A
/// speed holds until the time of the next line. The last line holds as long as the previous one; then the trace
/// repeats.
///
///     seconds,mbps
///     0,1.0
///     30,0.2
class BandwidthTrace {
 public:
  /// DataError with file:line for invalid or truncated lines, and for a trace with only zero speeds.
  static BandwidthTrace read(const std::filesystem::path& path);

  /// Seconds to transfer the bytes, starting at `start`.
  double transfer(double bytes, double start) const;
  double period() const { return ends_.back(); }

 private:
  std::vector<double> ends_, speeds_;  // of each interval; MB/s
  double megabytes_ = 0;               // of one period
};

/// The links of a fleet. Random draws are keyed by (seed, client).
class Links {
 public:
  /// Reads the trace.
  Links(const BandwidthConfig& config, std::uint64_t seed);
  Link of(ClientId client, const DeviceProfile& profile) const;

 private:
  BandwidthConfig config_;
  std::uint64_t seed_;
  std::shared_ptr<const BandwidthTrace> trace_;
};

}  // namespace chorus::inline emulation
