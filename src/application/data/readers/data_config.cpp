#include "application/data/readers/data_config.h"

#include "application/data/readers/format.h"
#include "core/config/config_visitor.h"

namespace chorus {

void ColumnNames::describe(ConfigVisitor& visitor) {
  visitor.field("id", id, "the example's own name; 'none': not used, several joined by +, empty: by its usual names");
  visitor.field("text", text, "the text; the first sentence; the context; the source");
  visitor.field("second", second, "the second sentence; the question; the target");
  visitor.field("label", label, "the class");
  visitor.field("score", score, "the number to predict");
  visitor.field("words", words, "a list (JSONL), or words between spaces");
  visitor.field("tags", tags, "as many as words");
  visitor.field("answers", answers, "SQuAD's list of text and answer_start (JSONL)");
  visitor.field("client", client, "who wrote it");
  visitor.field("source", source, "which sub-corpus it is from");
  visitor.field("time", time, "seconds since 1970, a date, or a plain order");
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
  visitor.field("format", format, "the files' format; auto: by content and extension, each file").one_of(format_names);
  visitor.field("train", train, "files of training data, or folders of them").path();
  visitor.field("validation", validation, "files of validation data, or folders of them").path();
  visitor.field("test", test, "files of test data, or folders of them").path();
  visitor.field("formulation", formulation, "what is asked of a text; auto: told by the first file")
      .one_of(formulations);
  visitor.field("columns", columns, "CSV, TSV, JSONL: which column or field is what");
  visitor.field("header", header, "CSV, TSV: the first row names the columns").one_of(yes_no);
  visitor.field("quotes", quotes, "CSV, TSV: fields may stand in double quotes; auto: csv yes, tsv no").one_of(yes_no);
  visitor.field("delimiter", delimiter, "CSV: one character; empty: a comma (csv) or a tab (tsv)");
  visitor.field("word_column", word_column, "CoNLL: column of the word, from 0; negative counts from the end");
  visitor.field("tag_column", tag_column, "CoNLL: column of the tag, from 0; negative counts from the end");
  visitor.field("glue_task", glue_task, "GLUE: CoLA, SST-2, ...; empty: the folder's name");
  visitor.field("paragraphs", paragraphs, "plain text: an example is a paragraph, not a line");
  visitor.field("misaligned", misaligned,
                {{"error", Misaligned::kError}, {"skip", Misaligned::kSkip}, {"realign", Misaligned::kRealign}},
                "answers that do not stand at their offset");
  visitor.field("empty", empty, {{"skip", EmptyText::kSkip}, {"keep", EmptyText::kKeep}, {"error", EmptyText::kError}},
                "examples without text");
  visitor.field("labels", labels, "the label (or tag) vocabulary in the order of ids; empty: from the data");
  visitor.field("allow_new_labels", allow_new_labels, "take labels that only occur outside the training data");
  visitor.field("limit", limit, "at most so many examples of each split; 0: all").at_least(0);
  visitor.field("cache", cache, "folder for data that was read; auto: ~/.cache/chorus; none: read it each time")
      .not_empty();
  visitor.check([this] {
    return train.empty() && validation.empty() && test.empty()
               ? std::string("no data is named: give train, validation or test")
               : std::string();
  });
}

}  // namespace chorus
