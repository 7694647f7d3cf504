#pragma once

#include <map>
#include <vector>

#include "algorithm/federated/round_loop.h"
#include "core/ports/workbench.h"
#include "infrastructure/checkpoint/checkpoint_store.h"
#include "infrastructure/tracking/run_summary.h"

namespace chorus::inline experiment {

/// A run in progress as a checkpoint, and back. What the server's algorithm remembers is among the tensors, under
/// "server.", what its aggregation and its filters remember under "aggregation." and "filters.", and how often each
/// client was selected under "coverage".
struct RunState {
  RoundLoopState loop;
  std::int64_t phase = 0;
  Variant variant = {};              ///< of the model that is used
  std::vector<PhaseSummary> phases;  ///< those that are done
  std::map<std::string, at::Tensor> server, aggregation, filters;
  std::vector<std::uint32_t> coverage;
  std::size_t coverage_rounds = 0;
  std::map<ClientId, std::uint64_t> kept;  ///< of clients in other processes: which of their states is the current one
  std::map<std::string, std::string> ledgers;  ///< of privacy, by file: their marks (BudgetLedger::mark)
  /// So far, all processes of the run together. Checkpoints: waited for, and written in the background.
  double setup_seconds = 0, checkpoint_seconds = 0, checkpoint_background_seconds = 0;
  std::string data;                           ///< fingerprint of what is trained on
  std::optional<PrivacyReport> privacy = {};  ///< not saved: the ledger is the truth
  std::vector<OwnScore> own_scores = {};      ///< not saved: computed at the end of the run
};

/// Of a ledger; empty: nothing is known of it.
std::string mark_of(const std::map<std::string, std::string>& ledgers, const std::string& file);

/// Adds what clients promise about their examples to what the server promises about clients.
void add_report(RunState& state, const PrivacyReport& examples);

/// A promise about what leaves the clients or the server, with a sentence about models that it does not cover.
PrivacyReport except_own_models(PrivacyReport report, const AlgorithmTraits& traits);

/// What the server of a run works with that must outlive the process; borrowed.
struct ServerMemory {
  const Algorithm& algorithm;
  const Aggregation& aggregation;
  const DeviceCoverage& coverage;
  const ClientState& filters;
};
void remember(const ServerMemory& memory, RunState& state);

Checkpoint to_checkpoint(const RunState& state);
/// DataError when a field is missing, malformed or unknown: a checkpoint of another version.
RunState to_run_state(const Checkpoint& checkpoint);

/// The phase that began with `first_round` and ended with the last round of `loop`: its planned last one, or the one
/// that reached the target.
PhaseSummary summarize_phase(const std::string& name, std::int64_t first_round, const RoundLoopState& loop);

}  // namespace chorus::inline experiment
