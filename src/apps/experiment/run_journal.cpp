#include "apps/experiment/run_journal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "apps/experiment/model_card.h"
#include "apps/experiment/own_model.h"
#include "core/base/error.h"
#include "core/files/files.h"

namespace chorus::inline experiment {

void RunJournal::begin(const RunState& state, std::int64_t rounds, std::size_t clients) {
  // Without a checkpoint everything is told anew, what comes before the first round included.
  tracker_ = folder_.tracker(state.loop.round > 0 ? state.loop.round : -1);
  if (state.loop.round == 0) {
    record_start(rounds, clients);
  } else {
    tracker_->record({"resumed", state.loop.round, {}, {}});
  }
  ProgressOptions options;
  options.label = server_.config().name;
  options.total = rounds;
  options.unit = "rounds";
  options.initial = state.loop.round;
  progress_.emplace(std::move(options));
}

void RunJournal::record_start(std::int64_t rounds, std::size_t clients) {
  const ExperimentConfig& config = server_.config();
  const Layout& layout = server_.model().model().layout();
  Event started{"run_started", 0};
  started.numbers = {{"seed", static_cast<double>(config.seed)},
                     {"rounds", static_cast<double>(rounds)},
                     {"clients", static_cast<double>(clients)},
                     {"parameters", static_cast<double>(layout.size())},
                     {"trained_parameters", static_cast<double>(layout.trainable_size())}};
  if (config.evaluation.target) started.numbers["target"] = *config.evaluation.target;
  started.texts = {{"name", config.name},
                   {"algorithm", config.algorithm.name()},
                   {"aggregation", aggregation_text(config.aggregation)},
                   {"metric", server_.metric()},
                   {"goal", server_.higher_is_better() ? "max" : "min"}};
  tracker_->record(started);
}

void RunJournal::show(const RoundLoopState& loop, const RoundResult& result) {
  const std::string& metric = server_.metric();
  std::string note = std::isnan(result.loss) ? "loss not released" : fmt::format("loss {:.4f}", result.loss);
  if (const auto found = loop.last.find(metric); found != loop.last.end()) {
    note += fmt::format("  {} {:.4f}", metric, found->second);
  }
  note += fmt::format("  {:.0f} examples/s", loop.examples / std::max(loop.seconds, 1e-9));
  note_ = note;
  progress_->note(note);
  progress_->advance();
}

void RunJournal::show_replies(std::size_t done, std::size_t asked) {
  progress_->note(fmt::format("{} of {} clients{}{}", done, asked, note_.empty() ? "" : "  ", note_));
  const auto now = std::chrono::steady_clock::now();
  if (now - written_ < std::chrono::milliseconds(done == 0 ? 300 : 1000)) return;
  written_ = now;
  try {
    AtomicFile file(folder_.path() / "progress.json", Durability::kUnsynced);
    file.write(fmt::format(R"({{"done": {}, "total": {}, "what": "clients"}})"
                           "\n",
                           done, asked));
    file.commit();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): a full disk is noticed where something is lost
  }
}

void RunJournal::end_rounds() {
  progress_->finish();
  std::error_code ignored;
  std::filesystem::remove(folder_.path() / "progress.json", ignored);
}

RunSummary RunJournal::finish(const RunState& state, RoundLoopEnd end, double saving_seconds) {
  const RoundLoopState& loop = state.loop;
  const ExperimentConfig& config = server_.config();
  RunSummary summary;
  summary.status = end == RoundLoopEnd::kTargetReached ? "target_reached"
                   : end == RoundLoopEnd::kBudgetSpent ? "budget_spent"
                                                       : "finished";
  summary.privacy = state.privacy;
  summary.algorithm = config.algorithm.name();
  summary.metric = server_.metric();
  summary.higher_is_better = server_.higher_is_better();
  summary.target = config.evaluation.target;
  summary.rounds_to_target = loop.rounds_to_target;
  summary.rounds = loop.round;
  summary.best_round = loop.best_round;
  summary.last = loop.last;
  summary.best = loop.best;
  summary.examples = loop.examples;
  summary.bytes_up = loop.bytes_up;
  summary.bytes_down = loop.bytes_down;
  summary.seconds = loop.seconds;
  if (config.emulation) summary.emulated = loop.emulated;
  summary.targets = loop.targets;
  if (state.phases.size() > 1) summary.phases = state.phases;
  for (const ClientGroupScores& decile : loop.deciles) {
    summary.deciles.push_back({decile.name, static_cast<std::int64_t>(decile.clients), decile.scores});
  }
  if (!state.own_scores.empty()) {
    summary.spreads = spreads_of(state.own_scores, summary.higher_is_better);
    write_own_scores(folder_.path(), state.own_scores, summary.metric, summary.higher_is_better);
  }
  summary.parts = {.setup = state.setup_seconds,
                   .training = loop.seconds - loop.evaluation_seconds,
                   .evaluation = loop.evaluation_seconds,
                   .checkpoints = state.checkpoint_seconds,
                   .checkpoints_background = state.checkpoint_background_seconds,
                   .saving = saving_seconds};
  tracker_->record({"run_finished", loop.round, {{"seconds", loop.seconds}}, {{"status", summary.status}}});
  tracker_->flush();
  folder_.write_summary(summary);
  return summary;
}

}  // namespace chorus::inline experiment
