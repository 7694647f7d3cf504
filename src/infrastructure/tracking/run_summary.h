#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/cost.h"

namespace chorus {

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

/// `summary.json`: the results of a run, for `chorus compare`, `chorus sweep` and other programs.
struct RunSummary {
  std::string status = "finished";  ///< finished, target_reached, or interrupted
  std::string algorithm{};
  std::string metric{};          ///< the main score's name, as in `best` and `last`
  bool higher_is_better = true;  ///< false for losses and perplexity
  std::optional<double> target{};
  std::optional<std::int64_t> rounds_to_target{};  ///< the first evaluated round that met the target
  std::int64_t rounds = 0;                         ///< finished rounds
  std::int64_t best_round = 0;
  Scores last{}, best{};  ///< on the main test set; `best` has all scores of the round with the best main score
  double examples = 0, bytes_up = 0, bytes_down = 0;  ///< totals of all clients and rounds
  double seconds = 0;                                 ///< sum over all processes of a resumed run
  std::optional<EmulatedTotals> emulated{};           ///< time and energy of emulated devices
  std::vector<TargetReached> targets{};               ///< costs of reaching each target
  std::vector<PhaseSummary> phases{};
  std::vector<DecileSummary> deciles{};
};

std::string to_json(const RunSummary& summary);
/// DataError starting with `where` for anything that `to_json` does not write.
RunSummary parse_run_summary(const std::string& json, const std::string& where);
/// The run's summary; nullopt when it is not finished.
std::optional<RunSummary> read_run_summary(const std::filesystem::path& run_folder);

}  // namespace chorus
