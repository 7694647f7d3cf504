#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "application/data/readers/reader_options.h"

namespace chorus::inline readers {

/// JSONL: one JSON object per line (also gzipped); blank lines are skipped. Roles of fields: ColumnNames. A text given
/// as a list of strings is joined by spaces (SciTLDR's source); of a target given as a list the first is the target and
/// the others are further references. Answers are SQuAD's [{"text", "answer_start"}] or Hugging Face's {"text": [...],
/// "answer_start": [...]}. `client`, when not empty, is the client of every record without one.
std::unique_ptr<RecordReader> open_jsonl(const std::filesystem::path& path, const ReaderOptions& options,
                                         const std::string& client);

}  // namespace chorus::inline readers
