#pragma once

#include <optional>
#include <string>

#include "application/data/record.h"

namespace chorus::inline config {
class ConfigVisitor;
}

namespace chorus::inline readers {

/// Columns (CSV, TSV) or fields (JSONL) by role. Empty: by its usual name, see columns.h; "none": unused. Several
/// joined by '+' are joined by a space ("title+description"). A file without a header has the columns "1", "2", ...; a
/// nested JSON field is "/meta/user".
struct ColumnNames {
  std::string id = {};
  std::string text = {};    ///< the text; the first sentence; the context; the source
  std::string second = {};  ///< the second sentence; the question; the target
  std::string label = {};
  std::string score = {};    ///< regression target (pair_regression)
  std::string words = {};    ///< a list (JSONL), or words separated by spaces
  std::string tags = {};     ///< one tag per word
  std::string answers = {};  ///< SQuAD's list of {text, answer_start} (JSONL)
  std::string client = {};
  std::string source = {};
  std::string time = {};

  void describe(ConfigVisitor& visitor);
};

/// What to do with an answer that is not at its offset in the context.
enum class Misaligned {
  kError,   ///< DataError with the location
  kSkip,    ///< drop the answer, and the example when it has no other
  kRealign  ///< move it to the nearest occurrence of its text (ignoring surrounding whitespace), or drop it
};

/// Options of all readers. Each reader uses its own.
struct ReaderOptions {
  std::optional<Formulation> formulation = {};  ///< unset: from the file
  ColumnNames columns = {};
  std::optional<bool> header = {};  ///< CSV, TSV: the first row names the columns; unset: guess
  char delimiter = 0;               ///< CSV: 0 is ',' (csv) or a tab (tsv)
  std::optional<bool> quotes = {};  ///< CSV, TSV: fields may be in double quotes; unset: yes for csv, no for tsv
  int word_column = 0;              ///< CoNLL: which column is the word; negative counts from the end
  int tag_column = -1;              ///< CoNLL: which column is the tag
  std::string glue_task = {};       ///< CoLA, SST-2, ...; empty: from the folder's name or the header
  bool paragraphs = false;          ///< plain text: one example per paragraph (up to a blank line), not per line
  Misaligned misaligned = Misaligned::kError;
};

}  // namespace chorus::inline readers
