#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "application/data/dataset_builder.h"
#include "application/data/readers/reader_options.h"

namespace chorus::inline readers {

/// Where a dataset comes from and how it is read. Formats: `chorus list reader`.
struct DataConfig {
  std::string format = "auto";                 ///< a reader's name; auto: by content and extension of each file
  std::vector<std::string> train = {};         ///< files, or folders of files
  std::vector<std::string> validation = {};    ///< the same
  std::vector<std::string> test = {};          ///< the same
  bool client_files = false;                   ///< each file is one client, named as the file
  std::string formulation = "auto";            ///< the kind of problem; auto: from the first file
  ColumnNames columns = {};                    ///< CSV, TSV, JSONL: roles of the columns
  std::string header = "auto";                 ///< CSV, TSV: yes, no, auto
  std::string quotes = "auto";                 ///< CSV, TSV: fields may be quoted: yes, no, auto (csv yes, tsv no)
  std::string delimiter = {};                  ///< CSV: one character; empty: found (csv) or a tab (tsv)
  std::int64_t word_column = 0;                ///< CoNLL; negative counts from the end
  std::int64_t tag_column = -1;                ///< CoNLL; negative counts from the end
  std::string glue_task = {};                  ///< GLUE: CoLA, SST-2, ...; empty: the folder's name
  bool paragraphs = false;                     ///< plain text: one example per paragraph, not per line
  Misaligned misaligned = Misaligned::kError;  ///< answers that are not at their offset
  EmptyText empty = EmptyText::kSkip;          ///< examples without text
  std::vector<std::string> labels = {};        ///< the label (or tag) vocabulary in id order; empty: from the data
  bool allow_new_labels = false;               ///< accept labels that only occur outside the training data
  std::int64_t limit = 0;                      ///< maximum examples per split; 0: all
  std::string cache = "auto";  ///< cache folder (core/files/cache_folder.h); none: always read the files

  void describe(ConfigVisitor& visitor);
};

}  // namespace chorus::inline readers
