#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/ports/federation.h"

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
class RecordedFederation final : public Federation {
 public:
  RecordedFederation(Federation& clients, TrialAsks& asks) : clients_(clients), asks_(asks) {}

  const Roster& roster() const override { return clients_.roster(); }
  Replies ask(std::span<const ClientId> cohort, Request request) override;
  void end_session(std::uint64_t session) override { clients_.end_session(session); }
  Traffic traffic() const override { return clients_.traffic(); }
  bool real_time() const override { return clients_.real_time(); }
  void wait(double seconds) override { clients_.wait(seconds); }

 private:
  Federation& clients_;
  TrialAsks& asks_;
};

}  // namespace chorus::inline experiment
