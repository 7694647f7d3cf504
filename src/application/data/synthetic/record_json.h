#pragma once

#include <string>

#include "application/data/record.h"

namespace chorus::inline synthetic {

/// Appends the record as one line of JSON, with field names that the JSONL reader recognizes:
///
///     text classification    text, label               pair classification   text, second, label
///     tagging                words, tags               pair regression       text, second, score
///     span extraction        context, question, answers [{text, answer_start}]
///     seq2seq                text, target              language model        text
///
/// and id, client, source, time where set.
void append_json_line(const Record& record, Formulation formulation, std::string& out);

}  // namespace chorus::inline synthetic
