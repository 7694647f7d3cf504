#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/client_id.h"
#include "infrastructure/emulation/bandwidth.h"
#include "infrastructure/emulation/cost_model.h"

namespace chorus {

/// Some of the clients have this device.
struct FleetPart {
  std::string profile = "jetson_tx2";  ///< a name of `chorus list device`, or a YAML file
  double share = 1;                    ///< of the clients, in proportion to the others' shares

  void describe(ConfigVisitor& visitor);
};

/// Devices that are slower than their profile says.
struct StragglerConfig {
  double share = 0;     ///< of the clients are slow in every round
  double slowdown = 4;  ///< so many times slower they compute
  double jitter = 0;    ///< of every client and round: standard deviation of the logarithm of a factor around 1

  void describe(ConfigVisitor& visitor);
};

/// The key `emulation` of an experiment: whose clock the run is told on (docs/emulation.md).
struct EmulationConfig {
  std::vector<FleetPart> fleet = {{}};
  BandwidthConfig bandwidth = {};
  StragglerConfig stragglers = {};
  double dropout = 0;                   ///< probability that a client vanishes in a round
  std::optional<double> deadline = {};  ///< seconds after which the server does not wait for an answer
  double over_selection = 1;            ///< ask so many times more clients, take those that answer first
  double idle_seconds = 60;             ///< how long a round lasts in which nobody can be reached
  bool scale_depth = false;             ///< models of other depth than the profile's: by the share of layers that train

  void describe(ConfigVisitor& visitor);
};

/// Which device, link and luck each client has: a function of (seed, round, client), nothing is stored for a client.
/// Thread-safe.
///
///     const Fleet fleet(config.emulation, seed);
///     Cost cost = fleet.cost({client, round, clock}, work, {.batches = 29, .bytes_down = 4e6, .bytes_up = 4e6});
class Fleet {
 public:
  /// Reads profiles and traces: ConfigError or DataError.
  Fleet(const EmulationConfig& config, std::uint64_t seed);

  struct Moment {
    ClientId client = 0;
    std::uint64_t round = 0;
    double seconds = 0;  ///< the emulated clock
  };

  const EmulationConfig& config() const { return config_; }
  const std::vector<DeviceProfile>& profiles() const { return profiles_; }
  const DeviceProfile& profile(ClientId client) const;
  double slowdown(ClientId client, std::uint64_t round) const;
  /// After which share of its time the client vanishes in this round, if it does.
  std::optional<double> dropout(ClientId client, std::uint64_t round) const;

  Cost cost(const Moment& moment, EmulatedWork work, const ClientLoad& load) const;
  /// ConfigError when one of the profiles cannot tell how long such work takes.
  void check_work(EmulatedWork work) const;

 private:
  EmulationConfig config_;
  std::uint64_t seed_;
  std::vector<DeviceProfile> profiles_;
  std::vector<double> shares_;
  Links links_;
};

}  // namespace chorus
