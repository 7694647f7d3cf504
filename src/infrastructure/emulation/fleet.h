#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/client_id.h"
#include "infrastructure/emulation/bandwidth.h"
#include "infrastructure/emulation/cost_model.h"

namespace chorus::inline emulation {

/// A share of the clients with one kind of device.
struct FleetPart {
  std::string profile = "jetson_tx2";  ///< a name of `chorus list device`, or a YAML file
  double share = 1;                    ///< share of the clients, relative to the other shares
  std::optional<double> memory = {};   ///< GB that training may take; not given: enough

  void describe(ConfigVisitor& visitor);
};

/// Devices that are slower than their profile.
struct StragglerConfig {
  double share = 0;     ///< share of the clients that are slow in every round
  double slowdown = 4;  ///< factor on their computing time
  double jitter = 0;    ///< per client and round: standard deviation of the logarithm of a factor around 1

  void describe(ConfigVisitor& visitor);
};

/// Settings for the emulated device clock: the key `emulation` of an experiment (docs/explanation/emulation.md).
struct EmulationConfig {
  std::vector<FleetPart> fleet = {{}};
  BandwidthConfig bandwidth = {};
  double latency = 0;  ///< seconds of a message on its way, besides its bytes
  StragglerConfig stragglers = {};
  double dropout = 0;                   ///< probability that a client vanishes in a round
  std::optional<double> deadline = {};  ///< seconds after which the server stops waiting for replies
  double over_selection = 1;            ///< ask this many times more clients and use the first replies
  double idle_seconds = 60;             ///< length of a round without reachable clients
  bool scale_depth = false;             ///< use a profile of a model with another number of layers, by relative depth

  void describe(ConfigVisitor& visitor);
};

/// The device, link and random events of each client: a function of (seed, round, client), without stored state.
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
  /// The share of such work that the client's device has memory for, at most 1; nothing: enough for all of it.
  /// ConfigError when its memory is limited and the profile does not know what the work takes.
  std::optional<double> capacity(ClientId client, EmulatedWork work) const;
  double slowdown(ClientId client, std::uint64_t round) const;
  /// The share of its time after which the client vanishes in this round, if it does.
  std::optional<double> dropout(ClientId client, std::uint64_t round) const;

  Cost cost(const Moment& moment, EmulatedWork work, const ClientLoad& load) const;
  /// ConfigError when a profile has no values for such work.
  void check_work(EmulatedWork work) const;

 private:
  std::size_t part_of(ClientId client) const;

  EmulationConfig config_;
  std::uint64_t seed_;
  std::vector<DeviceProfile> profiles_;
  std::vector<double> shares_;
  Links links_;
};

}  // namespace chorus::inline emulation
