#include "application/data/readers/data_config.h"

#include "application/data/readers/format.h"
#include "core/config/config_visitor.h"

namespace chorus::inline readers {

void ColumnNames::describe(ConfigVisitor& visitor) {
  visitor.field(
      "id", id,
      "id of the example; for every column: 'none' for unused, several joined by +, empty for the usual names");
  visitor.field("text", text, "the text; the first sentence; the context; the source");
  visitor.field("second", second, "the second sentence; the question; the target");
  visitor.field("label", label, "the class");
  visitor.field("score", score, "the regression target");
  visitor.field("words", words, "a list (JSONL), or words separated by spaces");
  visitor.field("tags", tags, "one tag per word");
  visitor.field("answers", answers, "SQuAD's list of text and answer_start (JSONL)");
  visitor.field("client", client, "the author, used as client");
  visitor.field("source", source, "the sub-corpus");
  visitor.field("time", time, "seconds since 1970, a date, or any order");
}

void DataConfig::describe(ConfigVisitor& visitor) {
  std::vector<std::string> format_names{"auto"};
  for (const Format* known : formats()) {
    if (known->unavailable.empty()) format_names.push_back(known->name);
  }
  std::vector<std::string> formulations{"auto"};
  for (int i = 0; i <= static_cast<int>(Formulation::kLanguageModel); ++i) {
    formulations.emplace_back(name_of(static_cast<Formulation>(i)));
  }
  const std::vector<std::string> yes_no{"yes", "no", "auto"};
  visitor.field("format", format, "file format; auto: by content and extension of each file").one_of(format_names);
  visitor.field("train", train, "files or folders of training data").path();
  visitor.field("validation", validation, "files or folders of validation data").path();
  visitor.field("test", test, "files or folders of test data").path();
  visitor.field("client_files", client_files,
                "each file is one client, named as the file without its extension, where no column names the client");
  visitor.field("formulation", formulation, "the kind of problem; auto: from the first file").one_of(formulations);
  visitor.field("columns", columns, "CSV, TSV, JSONL: columns or fields by role");
  visitor.field("header", header, "CSV, TSV: whether the first row names the columns").one_of(yes_no);
  visitor.field("quotes", quotes, "CSV, TSV: whether fields may be in double quotes; auto: csv yes, tsv no")
      .one_of(yes_no);
  visitor.field("delimiter", delimiter, "CSV: one character; empty: found in the rows (csv), a tab (tsv)");
  visitor.field("word_column", word_column, "CoNLL: column of the word, from 0; negative counts from the end");
  visitor.field("tag_column", tag_column, "CoNLL: column of the tag, from 0; negative counts from the end");
  visitor.field("glue_task", glue_task, "GLUE: CoLA, SST-2, ...; empty: the folder's name");
  visitor.field("paragraphs", paragraphs, "plain text: one example per paragraph instead of per line");
  visitor.field("misaligned", misaligned,
                {{"error", Misaligned::kError}, {"skip", Misaligned::kSkip}, {"realign", Misaligned::kRealign}},
                "what to do with answers that are not at their offset");
  visitor.field("empty", empty, {{"skip", EmptyText::kSkip}, {"keep", EmptyText::kKeep}, {"error", EmptyText::kError}},
                "what to do with examples without text");
  visitor.field("labels", labels, "label or tag vocabulary in id order; empty: from the data");
  visitor.field("allow_new_labels", allow_new_labels, "accept labels that only occur outside the training data");
  visitor.field("limit", limit, "maximum examples per split; 0: all").at_least(0);
  visitor.field("cache", cache, "cache folder for parsed data; auto: ~/.cache/chorus; none: no cache").not_empty();
}

}  // namespace chorus::inline readers
