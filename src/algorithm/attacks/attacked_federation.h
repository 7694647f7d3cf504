#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "algorithm/attacks/attack.h"
#include "core/ports/forwarding_federation.h"

namespace chorus::inline attacks {

/// Who attacks, and how.
struct AttacksConfig {
  double share = 0.2;                     ///< of all clients; drawn once from the seed
  std::vector<std::int64_t> spared = {};  ///< clients that never attack, such as the one with the server's data
  double claim = 1;                       ///< examples that an attacker claims, in multiples of those it has
  Choice<Attacks> attack{"sign_flip"};

  bool spares(ClientId client) const;
  void describe(ConfigVisitor& visitor);
};

/// The attackers among these clients: the whole part of share * clients, drawn from the seed.
std::set<ClientId> draw_attackers(std::vector<ClientId> clients, const AttacksConfig& config, std::uint64_t seed);
/// Why there would be no attacker among these clients, or a spared one is not among them; "": all is well.
std::string attackers_mistake(const std::vector<ClientId>& clients, const AttacksConfig& config);

struct AttackedFederationInput {
  Federation& inner;  ///< borrowed
  AttacksConfig config;
  std::uint64_t seed = 0;
};

/// A federation some of whose clients are malicious: around any other, next to the algorithm. Where an attacker's reply
/// has a tensor "update", "gradient" or "predictions", the attack replaces it, and the examples it claims. An attack
/// that needs to see other updates holds back the attackers' replies, and for Sees::kEveryone the updates of all, until
/// everybody has replied.
///
///     AttackedFederation federation({inner, config, seed});
class AttackedFederation : public ForwardingFederation {
 public:
  /// ConfigError for an attackers_mistake.
  explicit AttackedFederation(const AttackedFederationInput& input);

  Replies ask(std::span<const ClientId> cohort, Request request) override;

  const std::set<ClientId>& attackers() const { return attackers_; }
  /// Of the newest round that was asked in: attackers, those whose updates were replaced.
  std::map<std::string, double> numbers() const { return {{"attackers", static_cast<double>(attacked_)}}; }

 private:
  class Asking;
  std::uint64_t seed_;
  std::set<ClientId> attackers_;
  std::shared_ptr<const Attack> attack_;
  Attack::Sees sees_;
  double claim_;
  std::uint64_t round_ = 0;
  std::size_t attacked_ = 0;
};

}  // namespace chorus::inline attacks
