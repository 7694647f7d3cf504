#include "application/metrics/score.h"

#include <fmt/format.h>

#include <functional>
#include <unordered_map>
#include <utility>

#include "application/metrics/classification.h"
#include "application/metrics/correlation.h"
#include "application/metrics/perplexity.h"
#include "application/metrics/rouge.h"
#include "application/metrics/score_lines.h"
#include "application/metrics/squad.h"
#include "core/base/error.h"

namespace chorus::inline metrics {
namespace {

std::unique_ptr<Metric> make_metric(const ScoreOptions& options, Keep keep) {
  switch (options.task) {
    case ScoreTask::kClassification:
      return std::make_unique<Classification>(ClassificationOptions{.labels = {}, .positive = options.positive}, keep);
    case ScoreTask::kRegression:
      return std::make_unique<Correlation>(keep);
    case ScoreTask::kTagging:
      return std::make_unique<SpanF1>(options.strict ? SpanScheme::kIob2 : SpanScheme::kLenient, keep);
    case ScoreTask::kQuestionAnswering:
      return std::make_unique<SquadF1>(options.no_answer ? SquadVersion::kV2 : SquadVersion::kV1, keep);
    case ScoreTask::kGeneration:
      return std::make_unique<Rouge>(options.stem, keep);
    case ScoreTask::kLanguageModel:
      return std::make_unique<Perplexity>(keep);
  }
  throw InternalError("a task without metric");
}

// `prediction` is null when there is none and that is allowed.
void add_pair(ScoreTask task, Metric& metric, const ScoreItem* prediction, const ScoreItem& reference) {
  switch (task) {
    case ScoreTask::kClassification:
      return static_cast<Classification&>(metric).add(prediction->text, reference.text);
    case ScoreTask::kRegression:
      return static_cast<Correlation&>(metric).add(prediction->number, reference.number);
    case ScoreTask::kTagging:
      return static_cast<SpanF1&>(metric).add(prediction->texts, reference.texts);
    case ScoreTask::kQuestionAnswering:
      if (!prediction) return static_cast<SquadF1&>(metric).add_missing(reference.texts);
      return static_cast<SquadF1&>(metric).add(prediction->text, reference.texts);
    case ScoreTask::kGeneration:
      return static_cast<Rouge&>(metric).add(prediction->text, reference.texts);
    case ScoreTask::kLanguageModel:
      return static_cast<Perplexity&>(metric).add(prediction->number, prediction->tokens);
  }
}

void check_sentence(const ScoreItem& prediction, const ScoreItem& reference) {
  if (prediction.texts.size() != reference.texts.size())
    throw DataError(fmt::format("{}: the sentence has {} tags, but the same sentence at {} has {}", prediction.place,
                                prediction.texts.size(), reference.place, reference.texts.size()));
  if (prediction.words.size() != prediction.texts.size() || reference.words.size() != reference.texts.size()) return;
  for (std::size_t i = 0; i < prediction.words.size(); ++i)
    if (prediction.words[i] != reference.words[i])
      throw DataError(
          fmt::format("{}: word {} of the sentence is '{}', but '{}' at {}; the files must hold the same sentences",
                      prediction.place, i + 1, prediction.words[i], reference.words[i], reference.place));
}

using OnPair = std::function<void(const ScoreItem* prediction, ScoreItem& reference)>;

// Both files side by side. `prediction` and `reference` hold the first items.
void pair_by_order(ScoreReader& predictions, ScoreReader& references, ScoreItem& prediction, ScoreItem& reference,
                   const OnPair& on_pair) {
  for (std::size_t count = 1;; ++count) {
    on_pair(&prediction, reference);
    const bool more_predictions = predictions.next(prediction);
    const bool more_references = references.next(reference);
    if (more_predictions != more_references)
      throw DataError(fmt::format(
          "{}: there are more {} than {} ({})", more_predictions ? prediction.place : reference.place,
          more_predictions ? "predictions" : "references", more_predictions ? "references" : "predictions", count));
    if (!more_predictions) return;
  }
}

void pair_by_id(ScoreReader& predictions, ScoreReader& references, ScoreItem& prediction, ScoreItem& reference,
                bool allow_missing, const OnPair& on_pair) {
  struct Known {
    ScoreItem item;
    std::size_t order = 0;
    bool used = false;
  };
  std::unordered_map<std::string, Known> known;
  do {
    if (prediction.id.empty()) throw DataError(fmt::format("{}: the prediction has no id", prediction.place));
    const auto [found, is_new] = known.try_emplace(prediction.id, Known{prediction, known.size(), false});
    if (!is_new)
      throw DataError(fmt::format("{}: the id '{}' was already predicted at {}", prediction.place, prediction.id,
                                  found->second.item.place));
  } while (predictions.next(prediction));

  std::unordered_map<std::string, std::string> seen;
  do {
    if (reference.id.empty()) throw DataError(fmt::format("{}: the reference has no id", reference.place));
    const auto [first, is_new] = seen.try_emplace(reference.id, reference.place);
    if (!is_new)
      throw DataError(
          fmt::format("{}: the id '{}' is repeated, first at {}", reference.place, reference.id, first->second));
    const auto found = known.find(reference.id);
    if (found == known.end() && !allow_missing)
      throw DataError(fmt::format("{}: the id '{}' has no prediction", reference.place, reference.id));
    if (found != known.end()) found->second.used = true;
    on_pair(found != known.end() ? &found->second.item : nullptr, reference);
  } while (references.next(reference));

  const Known* unknown = nullptr;
  for (const auto& [id, entry] : known)
    if (!entry.used && (!unknown || entry.order < unknown->order)) unknown = &entry;
  if (unknown)
    throw DataError(fmt::format("{}: the id '{}' is not in the references", unknown->item.place, unknown->item.id));
}

// Visits all pairs of the two files; lm has predictions only, unless the references name clients.
void for_each_pair(const ScoreOptions& options, const OnPair& on_pair) {
  const SpanScheme scheme = options.strict ? SpanScheme::kIob2 : SpanScheme::kLenient;
  const auto predictions = open_score_file({options.predictions, options.task, ScoreSide::kPredictions, scheme});
  ScoreItem prediction;
  const bool any_prediction = predictions->next(prediction);
  if (options.task == ScoreTask::kLanguageModel && options.references.empty()) {
    for (bool more = any_prediction; more; more = predictions->next(prediction)) on_pair(&prediction, prediction);
    return;
  }
  const auto references = open_score_file({options.references, options.task, ScoreSide::kReferences, scheme});
  ScoreItem reference;
  const bool any_reference = references->next(reference);
  if (!any_reference) throw DataError(fmt::format("{}: the file has no references", options.references));
  const bool whole_json = options.task == ScoreTask::kQuestionAnswering && !reference.id.empty();
  if (!any_prediction && !(whole_json && options.allow_missing))
    throw DataError(fmt::format("{}: the file has no predictions", options.predictions));
  if (!any_prediction) {
    do on_pair(nullptr, reference);
    while (references->next(reference));
  } else if (!prediction.id.empty() && !reference.id.empty()) {
    pair_by_id(*predictions, *references, prediction, reference, options.allow_missing, on_pair);
  } else {
    pair_by_order(*predictions, *references, prediction, reference, on_pair);
  }
}

// scikit-learn's default positive class is 1: with labels 0 and 1 and none named, the binary scores are those of 1.
void add_binary_scores(GroupScores& group) {
  bool binary = true;
  for (const auto& [name, value] : group.scores)
    if (name.starts_with("support/") && name != "support/0" && name != "support/1") binary = false;
  if (!binary || !group.scores.contains("f1/1")) return;
  for (const std::string name : {"precision", "recall", "f1"}) {
    group.scores[name] = group.scores.at(name + "/1");
    if (const auto found = group.intervals.find(name + "/1"); found != group.intervals.end())
      group.intervals[name] = found->second;
  }
}

void check_options(const ScoreOptions& options) {
  if (options.references.empty() && options.task != ScoreTask::kLanguageModel)
    throw ConfigError(fmt::format("--task {} needs --references", name_of(options.task)));
  if (options.allow_missing && options.task != ScoreTask::kQuestionAnswering)
    throw ConfigError("--allow-missing works with --task qa only");
}

}  // namespace

ScoreReport score_files(const ScoreOptions& options) {
  check_options(options);
  const bool needs_clients = options.by_client || options.by_decile || options.resample_clients;
  const Keep keep = options.bootstrap ? Keep::kUnits : Keep::kTotals;
  const Keep keep_all = options.resample_clients ? Keep::kTotals : keep;
  std::unique_ptr<Metric> all = make_metric(options, keep_all);
  Breakdown clients(make_metric(options, Keep::kTotals), keep);
  Breakdown groups(make_metric(options, Keep::kTotals), keep);
  const auto names = options.clients.empty() ? nullptr : std::make_unique<ScoreLines>(options.clients);
  std::vector<double> fednlp;

  for_each_pair(options, [&](const ScoreItem* prediction, ScoreItem& reference) {
    if (options.task == ScoreTask::kTagging) check_sentence(*prediction, reference);
    // Files also write "no answer" as an empty text.
    if (options.no_answer) std::erase(reference.texts, "");
    if (names && !names->next(reference.client))
      throw DataError(fmt::format("{}: fewer names than examples; {} has none", options.clients, reference.place));
    add_pair(options.task, *all, prediction, reference);
    if (needs_clients) {
      if (reference.client.empty())
        throw DataError(
            fmt::format("{}: the example has no client; give --clients, or \"client\" in JSON lines", reference.place));
      add_pair(options.task, clients.client(reference.client), prediction, reference);
    }
    if (options.by_group) {
      if (reference.group.empty())
        throw DataError(
            fmt::format("{}: the example has no group; add \"group\" or \"source\" in JSON lines", reference.place));
      add_pair(options.task, groups.client(reference.group), prediction, reference);
    }
    if (options.fednlp_batch > 0 && options.task == ScoreTask::kGeneration)
      fednlp.push_back(fednlp_rouge_l(prediction->text, reference.texts));
  });
  if (std::string extra; names && names->next(extra))
    throw DataError(fmt::format("{}: more names than examples", names->place()));
  if (all->examples() == 0) throw DataError(fmt::format("{}: nothing to score", options.predictions));

  ScoreReport report;
  report.task = options.task;
  report.confidence = options.bootstrap ? options.bootstrap->confidence : 0;
  if (options.resample_clients) {
    report.all = clients.overall(options.bootstrap);
  } else {
    report.all = {"all", needs_clients ? clients.clients() : 0, all->scores(), {}};
    if (options.bootstrap) report.all.intervals = bootstrap(*all, *options.bootstrap);
  }
  if (options.task == ScoreTask::kClassification && !options.positive) add_binary_scores(report.all);
  if (!fednlp.empty()) report.all.scores["fednlp_rougeL_batched"] = mean_of_batch_means(fednlp, options.fednlp_batch);
  if (options.by_client) report.by_client = clients.by_client(options.bootstrap);
  if (options.by_decile) report.by_decile = clients.by_decile(options.bootstrap);
  if (options.by_group) report.by_group = groups.by_client(options.bootstrap);
  return report;
}

}  // namespace chorus::inline metrics
