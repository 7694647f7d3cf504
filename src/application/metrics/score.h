#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "application/metrics/breakdown.h"
#include "application/metrics/score_items.h"

namespace chorus::inline metrics {

/// Options of `chorus score`. File formats: docs/reference/formats.md, "Files that are scored".
struct ScoreOptions {
  ScoreTask task = ScoreTask::kClassification;
  std::string predictions;
  std::string references;  ///< not needed for lm
  std::string clients;     ///< one client name per line, in the order of the references; or empty

  std::optional<std::string> positive;  ///< classification: the class of the binary F1 (default: "1" of "0" and "1")
  bool strict = false;                  ///< tagging: strict IOB2, an I- without its B- is not an entity
  bool stem = false;                    ///< generation: stem words
  bool no_answer = false;               ///< qa: SQuAD v2.0 rules
  bool allow_missing = false;           ///< qa: a question without prediction scores 0
  std::size_t fednlp_batch = 0;         ///< generation: also FedNLP's mean of batch means with this batch size

  bool by_client = false;
  bool by_decile = false;
  bool by_group = false;
  bool resample_clients = false;              ///< resample clients, not examples
  std::optional<BootstrapOptions> bootstrap;  ///< intervals, when set
};

struct ScoreReport {
  ScoreTask task = ScoreTask::kClassification;
  double confidence = 0;  ///< of the intervals; 0 without
  GroupScores all;
  std::vector<GroupScores> by_client;
  std::vector<GroupScores> by_decile;
  std::vector<GroupScores> by_group;
};

/// Reads both files, pairs their items (by id where both have ids, by order otherwise) and scores them. Memory grows
/// with the number of clients and classes only, unless ids, intervals or ranks need the examples. DataError with
/// file and line.
ScoreReport score_files(const ScoreOptions& options);

/// As text: a table of scores, one of classes or entity types, one per breakdown.
std::string to_text(const ScoreReport& report);
/// As JSON: {"task", "scores": {...}, "confidence", "intervals": {name: [low, high]}, "by_client": [...], ...}.
/// Undefined values are null.
std::string to_json(const ScoreReport& report);

}  // namespace chorus::inline metrics
