#include "infrastructure/emulation/fleet.h"

#include <algorithm>
#include <cmath>

#include "core/base/rng.h"

namespace chorus {

void FleetPart::describe(ConfigVisitor& visitor) {
  visitor.field("profile", profile, "a name of `chorus list device`, or a YAML file").not_empty();
  visitor.field("share", share, "of the clients, in proportion to the other shares").above(0);
}

void StragglerConfig::describe(ConfigVisitor& visitor) {
  visitor.field("share", share, "of the clients that are slow in every round").at_least(0).at_most(1);
  visitor.field("slowdown", slowdown, "so many times slower these compute").at_least(1);
  visitor.field("jitter", jitter, "of every client and round: deviation of the logarithm of a factor").at_least(0);
}

void EmulationConfig::describe(ConfigVisitor& visitor) {
  visitor.field("fleet", fleet, "which devices the clients have").not_empty();
  visitor.field("bandwidth", bandwidth, "how fast their links are");
  visitor.field("stragglers", stragglers, "devices that are slower than their profile");
  visitor.field("dropout", dropout, "probability that a client vanishes in a round").at_least(0).at_most(1);
  visitor.field("deadline", deadline, "seconds after which the server stops waiting for answers").above(0);
  visitor.field("over_selection", over_selection, "ask so many times more clients, take the first to answer")
      .at_least(1);
  visitor.field("idle_seconds", idle_seconds, "how long a round lasts in which nobody can be reached").above(0);
  visitor.field("scale_depth", scale_depth, "models of other depth than the profile's: by the share that trains");
}

Fleet::Fleet(const EmulationConfig& config, std::uint64_t seed)
    : config_(config), seed_(seed), links_(config.bandwidth, seed) {
  for (const FleetPart& part : config_.fleet) {
    profiles_.push_back(find_profile(part.profile));
    shares_.push_back(part.share);
  }
}

const DeviceProfile& Fleet::profile(ClientId client) const {
  if (profiles_.size() == 1) return profiles_.front();
  RandomStream stream({.seed = seed_, .purpose = "fleet", .client = client});
  return profiles_[stream.categorical(shares_)];
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
  return cost_of({device, work, load, link, slowdown(moment.client, moment.round), moment.seconds});
}

void Fleet::check_work(EmulatedWork work) const {
  work.scale_depth = config_.scale_depth;
  for (const DeviceProfile& device : profiles_) batch_seconds(device, work);
}

}  // namespace chorus
