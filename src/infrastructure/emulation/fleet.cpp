#include "infrastructure/emulation/fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/rng.h"

namespace chorus::inline emulation {

void FleetPart::describe(ConfigVisitor& visitor) {
  visitor.field("profile", profile, "a name of `chorus list device`, or a YAML file").not_empty();
  visitor.field("share", share, "share of the clients, relative to the other shares").above(0);
  visitor.field("memory", memory, "GB that training may take on these devices; not given: enough").above(0);
}

void StragglerConfig::describe(ConfigVisitor& visitor) {
  visitor.field("share", share, "share of the clients that are slow in every round").at_least(0).at_most(1);
  visitor.field("slowdown", slowdown, "factor on their computing time").at_least(1);
  visitor.field("jitter", jitter, "per client and round: standard deviation of the logarithm of a factor").at_least(0);
}

void EmulationConfig::describe(ConfigVisitor& visitor) {
  visitor.field("fleet", fleet, "devices of the clients").not_empty();
  visitor.field("bandwidth", bandwidth, "speed of their links");
  visitor.field("latency", latency, "seconds that every request and every reply is on its way, besides its bytes")
      .at_least(0);
  visitor.field("stragglers", stragglers, "devices that are slower than their profile");
  visitor.field("dropout", dropout, "probability that a client vanishes in a round").at_least(0).at_most(1);
  visitor.field("deadline", deadline, "seconds after which the server stops waiting for replies").above(0);
  visitor.field("over_selection", over_selection, "ask this many times more clients and use the first replies")
      .at_least(1);
  visitor.field("idle_seconds", idle_seconds, "length of a round without reachable clients, in seconds").above(0);
  visitor.field("scale_depth", scale_depth, "use profiles of models with another number of layers, by relative depth");
}

Fleet::Fleet(const EmulationConfig& config, std::uint64_t seed)
    : config_(config), seed_(seed), links_(config.bandwidth, seed) {
  for (const FleetPart& part : config_.fleet) {
    profiles_.push_back(find_profile(part.profile));
    shares_.push_back(part.share);
  }
}

std::size_t Fleet::part_of(ClientId client) const {
  if (profiles_.size() == 1) return 0;
  RandomStream stream({.seed = seed_, .purpose = "fleet", .client = client});
  return stream.categorical(shares_);
}

const DeviceProfile& Fleet::profile(ClientId client) const { return profiles_[part_of(client)]; }

std::optional<double> Fleet::capacity(ClientId client, EmulatedWork work) const {
  const std::size_t part = part_of(client);
  if (!config_.fleet[part].memory) return std::nullopt;
  work.scale_depth = config_.scale_depth;
  const auto needed = profiles_[part].at(work.way, work.depth, work.layers, work.scale_depth).memory;
  if (!needed || *needed <= 0) {
    throw ConfigError(fmt::format(
        "emulation.fleet: the profile {} does not say how much memory training takes; leave out `memory`",
        profiles_[part].name));
  }
  return std::min(1.0, *config_.fleet[part].memory * 1e9 / *needed);
}

double Fleet::slowdown(ClientId client, std::uint64_t round) const {
  const StragglerConfig& config = config_.stragglers;
  double factor = 1;
  if (config.share > 0) {
    RandomStream stream({.seed = seed_, .purpose = "straggler", .client = client});
    if (stream.uniform() < config.share) factor = config.slowdown;
  }
  if (config.jitter > 0) {
    RandomStream stream({.seed = seed_, .purpose = "jitter", .round = round, .client = client});
    factor *= std::exp(config.jitter * stream.normal());
  }
  return factor;
}

std::optional<double> Fleet::dropout(ClientId client, std::uint64_t round) const {
  if (config_.dropout <= 0) return {};
  RandomStream stream({.seed = seed_, .purpose = "dropout of clients", .round = round, .client = client});
  if (stream.uniform() >= config_.dropout) return {};
  return stream.uniform();
}

Cost Fleet::cost(const Moment& moment, EmulatedWork work, const ClientLoad& load) const {
  const DeviceProfile& device = profile(moment.client);
  work.scale_depth = config_.scale_depth;
  const Link link = links_.of(moment.client, device);
  return cost_of({device, work, load, link, slowdown(moment.client, moment.round), moment.seconds, config_.latency});
}

void Fleet::check_work(EmulatedWork work) const {
  work.scale_depth = config_.scale_depth;
  for (const DeviceProfile& device : profiles_) batch_seconds(device, work);
}

}  // namespace chorus::inline emulation
