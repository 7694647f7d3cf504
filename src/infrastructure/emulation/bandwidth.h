#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/base/client_id.h"
#include "infrastructure/emulation/cost_model.h"

namespace chorus {

/// How fast clients' links are, in MB/s (10^6 bytes).
struct BandwidthConfig {
  enum class Kind {
    kProfile,    ///< what the client's device profile says
    kConstant,   ///< the same for all
    kLognormal,  ///< of each client its own, drawn once around a median
    kTrace       ///< changes with the emulated time, as a file says
  };
  Kind kind = Kind::kProfile;
  double down = 1, up = 1;  ///< constant; the medians of lognormal
  double sigma = 0.5;       ///< lognormal: standard deviation of the logarithm
  std::string trace = {};   ///< the file (BandwidthTrace), for both directions
  bool shift = true;        ///< each client begins at its own place in the trace

  void describe(ConfigVisitor& visitor);
};

/// Speed over time, read from a file: lines `seconds,mbps` after that header, seconds from 0 and rising, MB/s not
/// negative. A speed holds until the next line's time; after the last line, which holds as long as the one before it,
/// the trace begins again.
///
///     seconds,mbps
///     0,1.0
///     30,0.2
class BandwidthTrace {
 public:
  /// DataError with file:line for anything else, a cut-off line included, and for a trace in which nothing moves.
  static BandwidthTrace read(const std::filesystem::path& path);

  /// Seconds that so many bytes take from `start` on.
  double transfer(double bytes, double start) const;
  double period() const { return ends_.back(); }

 private:
  std::vector<double> ends_, speeds_;  // of each stretch; MB/s
  double megabytes_ = 0;               // of one period
};

/// The links of a fleet. Everything drawn comes from (seed, client).
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

}  // namespace chorus
