#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "application/metrics/breakdown.h"
#include "application/metrics/score_items.h"

namespace chorus {

/// What `chorus score` is asked. Formats of the files: docs/formats.md, "Files that are scored".
struct ScoreOptions {
  ScoreTask task = ScoreTask::kClassification;
  std::string predictions;
  std::string references;  ///< not needed for lm
  std::string clients;     ///< one client name a line, in the order of the references; or empty

  std::optional<std::string> positive;  ///< classification: the class of the binary F1 (default: "1" of "0" and "1")
  bool strict = false;                  ///< tagging: IOB2 only, an I- without its B- is nothing
  bool stem = false;                    ///< generation: stem words
  bool no_answer = false;               ///< qa: SQuAD v2.0 rules
  bool allow_missing = false;           ///< qa: a question without prediction scores 0
  std::size_t fednlp_batch = 0;         ///< generation: also FedNLP's mean of batch means, for this batch size

  bool by_client = false;
  bool by_decile = false;
  bool by_group = false;
  bool resample_clients = false;              ///< draw clients, not examples
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
/// with the number of clients and classes only, unless ids, intervals or ranks need the examples. DataError names the
/// file and line of what is wrong.
ScoreReport score_files(const ScoreOptions& options);

/// For people: a table of the scores, one of classes or entity types, one for each breakdown.
std::string to_text(const ScoreReport& report);
/// For programs: {"task", "scores": {...}, "confidence", "intervals": {name: [low, high]}, "by_client": [...], ...}.
/// Undefined values are null.
std::string to_json(const ScoreReport& report);

}  // namespace chorus
