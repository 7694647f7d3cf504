#pragma once

#include <memory>
#include <string>

#include "application/metrics/score_items.h"
#include "application/metrics/score_lines.h"

namespace chorus::inline metrics {

/// The JSON formats of scored files (docs/reference/formats.md).

/// One object per line; blank lines are skipped.
std::unique_ptr<ScoreReader> json_lines_reader(std::unique_ptr<ScoreLines> lines, const ScoreFile& file);

/// Question answering: SQuAD JSON as references, one object from id to answer as predictions. Read at once.
std::unique_ptr<ScoreReader> whole_json_reader(ScoreLines& lines, const ScoreFile& file);

/// `tokens`, or DataError naming `place` when it is not a valid number of tokens.
double checked_token_count(double tokens, const std::string& place);

}  // namespace chorus::inline metrics
