#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "application/metrics/spans.h"

namespace chorus::inline metrics {

/// What `chorus score` can score.
enum class ScoreTask { kClassification, kRegression, kTagging, kQuestionAnswering, kGeneration, kLanguageModel };

/// "classification", "regression", "tagging", "qa", "generation" (or "seq2seq"), "lm". ConfigError with the known names
/// for any other.
ScoreTask score_task_named(const std::string& name);
const char* name_of(ScoreTask task);

enum class ScoreSide { kPredictions, kReferences };

/// One prediction, or one reference, as read from a file.
struct ScoreItem {
  std::string id;                  ///< empty: matched by order
  std::string client;              ///< or empty
  std::string group;               ///< domain, language, title..., or empty
  std::string text;                ///< label; predicted answer or text
  std::vector<std::string> texts;  ///< tags; gold answers; reference texts
  std::vector<std::string> words;  ///< tagging: first column, where there is one
  double number = 0;               ///< score; summed loss
  double tokens = 1;               ///< of a summed loss
  std::string place;               ///< "file:line", for messages
};

/// A stream of the items of one file. The format is detected from the content (docs/reference/formats.md, "Files that
/// are scored").
class ScoreReader {
 public:
  virtual ~ScoreReader() = default;
  /// False at the end. DataError naming file and line.
  virtual bool next(ScoreItem& item) = 0;
};

struct ScoreFile {
  std::string path;
  ScoreTask task = ScoreTask::kClassification;
  ScoreSide side = ScoreSide::kPredictions;
  SpanScheme scheme = SpanScheme::kLenient;  ///< tags must follow it
};

std::unique_ptr<ScoreReader> open_score_file(const ScoreFile& file);

}  // namespace chorus::inline metrics
