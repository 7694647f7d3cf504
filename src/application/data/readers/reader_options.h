#pragma once

#include <optional>
#include <string>

#include "application/data/record.h"

namespace chorus {

class ConfigVisitor;

/// Which column (CSV, TSV) or field (JSONL) holds what. Empty: found by its usual name, see columns.h; "none": not
/// used. Several joined by '+' are joined by a space ("title+description"). A file without a header has the column
/// names "1", "2", ...; a JSON field inside others is named "/meta/user".
struct ColumnNames {
  std::string id = {};
  std::string text = {};    ///< the text; the first sentence; the context; the source
  std::string second = {};  ///< the second sentence; the question; the target
  std::string label = {};
  std::string score = {};    ///< the number to predict (pair_regression)
  std::string words = {};    ///< a list (JSONL), or words between spaces
  std::string tags = {};     ///< as many as words
  std::string answers = {};  ///< SQuAD's list of {text, answer_start} (JSONL)
  std::string client = {};
  std::string source = {};
  std::string time = {};

  void describe(ConfigVisitor& visitor);
};

/// What to do with an answer whose text does not stand at its offset in the context.
enum class Misaligned {
  kError,   ///< stop, naming the place
  kSkip,    ///< drop the answer, and the example when it was the only one
  kRealign  ///< move it to the nearest place where its text stands (white space around it aside); drop it when nowhere
};

/// Everything a reader may be told. Each reader uses what concerns it.
struct ReaderOptions {
  std::optional<Formulation> formulation = {};  ///< unset: found from the file
  ColumnNames columns = {};
  std::optional<bool> header = {};  ///< CSV, TSV: the first row names the columns; unset: if it looks so
  char delimiter = 0;               ///< CSV: 0 is ',' (csv) or a tab (tsv)
  std::optional<bool> quotes = {};  ///< CSV, TSV: fields may stand in double quotes; unset: yes for csv, no for tsv
  int word_column = 0;              ///< CoNLL: which column is the word; negative counts from the end
  int tag_column = -1;              ///< CoNLL: which column is the tag
  std::string glue_task = {};       ///< CoLA, SST-2, ...; empty: from the folder's name or the header
  bool paragraphs = false;          ///< plain text: an example is a paragraph (up to a blank line), not a line
  Misaligned misaligned = Misaligned::kError;
};

}  // namespace chorus
