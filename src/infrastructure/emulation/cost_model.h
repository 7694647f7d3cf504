#pragma once

#include <cstdint>
#include <functional>

#include "core/base/cost.h"
#include "infrastructure/emulation/device_profile.h"

namespace chorus::inline emulation {

/// The work of a client per batch, as needed for a look-up in a profile.
struct EmulatedWork {
  TuningWay way = {};
  double depth = 12;         ///< top layers that train
  std::int64_t layers = 12;  ///< of the model
  std::int64_t batch_size = 4;
  std::int64_t sequence_length = 256;  ///< the truncation length, not the length of the texts
  bool scale_depth = false;            ///< DeviceProfile::at
  double share = 1;                    ///< of the network, where a client trains a smaller one: of time and memory
};

/// The work caused by one request.
struct ClientLoad {
  double batches = 0;
  double bytes_down = 0, bytes_up = 0;  ///< of the request and the reply, as they travel
};

/// Seconds to transfer the bytes, starting at a time of the emulated clock.
using TransferTime = std::function<double(double bytes, double start)>;

struct Link {
  TransferTime down, up;
};
/// A link of constant speed, in MB/s.
Link constant_link(double down, double up);

/// Seconds of one batch. ConfigError as for DeviceProfile::at.
double batch_seconds(const DeviceProfile& profile, const EmulatedWork& work);

/// The round of one client (Cai et al. 2023, section 6.1):
///     seconds = bytes_down / bandwidth + slowdown * batches * latency[depth] + bytes_up / bandwidth
///               + 2 * latency of a message
///     joules  = compute_watts * compute seconds + network_watts * network seconds
/// `start`: the emulated clock at the request, in seconds.
struct CostInput {
  const DeviceProfile& profile;
  EmulatedWork work = {};
  ClientLoad load = {};
  const Link& link;
  double slowdown = 1;
  double start = 0;
  double latency = 0;  ///< seconds of a message, in each direction
};
Cost cost_of(const CostInput& input);

}  // namespace chorus::inline emulation
