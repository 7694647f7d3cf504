#include "infrastructure/emulation/cost_model.h"

namespace chorus::inline emulation {
namespace {

constexpr double kMegabyte = 1e6;

}  // namespace

Link constant_link(double down, double up) {
  return {[down](double bytes, double) { return bytes / kMegabyte / down; },
          [up](double bytes, double) { return bytes / kMegabyte / up; }};
}

double batch_seconds(const DeviceProfile& profile, const EmulatedWork& work) {
  const double seconds = profile.at(work.way, work.depth, work.layers, work.scale_depth).seconds;
  const double tokens = static_cast<double>(work.batch_size) * static_cast<double>(work.sequence_length);
  const double reference = static_cast<double>(profile.batch_size) * static_cast<double>(profile.sequence_length);
  return seconds * (tokens / reference);
}

Cost cost_of(const CostInput& input) {
  const ClientLoad& load = input.load;
  Cost cost;
  cost.bytes_down = load.bytes_down;
  cost.bytes_up = load.bytes_up;
  const double down = input.latency + input.link.down(load.bytes_down, input.start);
  // A request that computes nothing needs no entry in the profile.
  if (load.batches > 0) {
    const EmulatedWork& work = input.work;
    cost.compute_seconds = load.batches * batch_seconds(input.profile, work) * work.share * input.slowdown;
    cost.memory = work.share * input.profile.at(work.way, work.depth, work.layers, work.scale_depth).memory.value_or(0);
  }
  const double up = input.latency + input.link.up(load.bytes_up, input.start + down + cost.compute_seconds);
  cost.network_seconds = down + up;
  cost.seconds = cost.compute_seconds + cost.network_seconds;
  cost.joules = input.profile.compute_watts * cost.compute_seconds + input.profile.network_watts * cost.network_seconds;
  return cost;
}

}  // namespace chorus::inline emulation
