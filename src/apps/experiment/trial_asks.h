#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/ports/forwarding_federation.h"

namespace chorus::inline experiment {

/// What a client did in one ask of a trial.
struct TrialWork {
  std::optional<double> batches = {};  ///< of its own data; nullopt: it did not say, so one pass is assumed
  double texts = 0;                    ///< of the public set
  double down = 0, up = 0;             ///< bytes
};
struct TrialAsk {
  std::string procedure = {};
  std::map<ClientId, TrialWork> clients = {};

  /// For a client that was not asked, the mean of those that were.
  TrialWork of(ClientId client) const;
};
/// The asks of each round, without those that only measure.
using TrialAsks = std::map<std::uint64_t, std::vector<TrialAsk>>;

/// The same clients, and a record of what they are asked. Borrows both.
class RecordedFederation final : public ForwardingFederation {
 public:
  RecordedFederation(Federation& clients, TrialAsks& asks) : ForwardingFederation(clients), asks_(asks) {}

  Replies ask(std::span<const ClientId> cohort, Request request) override;

 private:
  TrialAsks& asks_;
};

}  // namespace chorus::inline experiment
