#pragma once

#include <optional>
#include <vector>

#include "algorithm/federated/collect.h"

namespace chorus::inline federated {

struct HeteroFlConfig {
  std::vector<double> widths = {1, 0.5, 0.25};  ///< of the feed-forward sublayers, as shares of the whole
  std::vector<double> depths = {1};             ///< layers from the bottom, as shares of the whole
  bool ordered = false;                         ///< a client draws in each round a part up to its largest (FjORD)

  void describe(ConfigVisitor& visitor);
};

/// Devices of different size train parts of one network: HeteroFL (Diao et al. 2021) and FjORD's ordered dropout
/// (Horvath et al. 2021), by width and depth. A part has the first layers of the network and the first units of every
/// feed-forward sublayer, so its weights are leading blocks of the whole's. A client gets, trains and sends one part,
/// and every element becomes the mean over the clients that have it:
///     w_i += sum_{k has i} p_k (w_{k,i} - w_i) / sum_{k has i} p_k
///
/// Which part a client has: the largest that its device has memory for (RosterEntry::capacity, from `emulation.fleet`'s
/// memory); where capacities are not known, one dealt by a hash of its id, evenly. A device too small for every part
/// does not train. With `ordered` it draws among the parts up to that one in every round. HeteroFL's rescaling of
/// activations is left out: layer norms follow every sublayer.
class HeteroFl : public Algorithm {
 public:
  explicit HeteroFl(const HeteroFlConfig& config) : config_(config) {}
  RoundResult round(const RoundInput& input) override;

  /// A part, and its share of the elements of the whole.
  struct Part {
    Variant variant = {};
    double share = 1;
  };
  /// Of the configuration, by rising share. ConfigError when the network has no such parts.
  std::vector<Part> parts(const Variants& variants) const;
  /// The part that a client trains in a round; nothing: its device is too small.
  std::optional<Part> part_for(const RosterEntry& client, std::span<const Part> parts, std::uint64_t seed,
                               std::uint64_t round) const;

 private:
  HeteroFlConfig config_;
};

}  // namespace chorus::inline federated
