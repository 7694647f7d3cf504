#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/client_spread.h"
#include "core/base/cost.h"
#include "core/base/privacy_report.h"

namespace chorus::inline tracking {

using Scores = std::map<std::string, double>;

/// One time segment of a continual run, or one stage of another run with several.
struct PhaseSummary {
  std::string name{};
  std::int64_t first_round = 1, rounds = 0;
  Scores last{}, best{};
};

/// Scores of a decile of the devices by amount of text (Dupuy et al. 2022, section 4).
struct DecileSummary {
  std::string name{};
  std::int64_t clients = 0;
  Scores scores{};
};

/// Where the wall-clock time of a run went, all its processes together.
struct RunSeconds {
  double setup = 0;                   ///< data, tokens, partition and network
  double training = 0;                ///< rounds: selection, local training, aggregation
  double evaluation = 0;              ///< scores of the server's and the clients' test examples
  double checkpoints = 0;             ///< what the run waited for
  double checkpoints_background = 0;  ///< written beside the rounds; not part of the total
  double saving = 0;                  ///< the models at the end

  double total() const { return setup + training + evaluation + checkpoints + saving; }
};

/// `summary.json`: what a run came to. `chorus compare` and `chorus sweep` read it; programs may.
struct RunSummary {
  std::string status = "finished";  ///< finished, target_reached, budget_spent, or interrupted
  std::string algorithm{};
  std::string metric{};          ///< the main score's name, as in `best` and `last`
  bool higher_is_better = true;  ///< false for losses and perplexity
  std::optional<double> target{};
  std::optional<std::int64_t> rounds_to_target{};  ///< the first evaluated round that met the target
  std::int64_t rounds = 0;                         ///< finished rounds
  std::int64_t best_round = 0;
  Scores last{}, best{};  ///< of the main test set; `best` are all scores of the round with the best main one
  double examples = 0, bytes_up = 0, bytes_down = 0;  ///< trained on, and moved, by all clients in all rounds
  double seconds = 0;                                 ///< of training and evaluation, all processes of the run together
  RunSeconds parts{};                                 ///< of the whole run
  std::optional<EmulatedTotals> emulated{};           ///< on the clock and the batteries of emulated devices
  std::vector<TargetReached> targets{};               ///< what each score took
  std::vector<PhaseSummary> phases{};
  std::vector<DecileSummary> deciles{};
  std::vector<ClientSpread> spreads{};     ///< of clients' own test scores, model by model
  std::optional<PrivacyReport> privacy{};  ///< where the aggregation is differentially private
};

std::string to_json(const RunSummary& summary);
/// DataError starting with `where` for anything that `to_json` does not write.
RunSummary parse_run_summary(const std::string& json, const std::string& where);
/// The run's summary; nullopt when it is not finished.
std::optional<RunSummary> read_run_summary(const std::filesystem::path& run_folder);

}  // namespace chorus::inline tracking
