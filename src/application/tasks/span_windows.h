#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "application/data/dataset.h"
#include "application/tasks/encoded_columns.h"
#include "application/text/tokenizer.h"

namespace chorus::inline tasks {

struct WindowOptions {
  std::size_t max_length = 384;       ///< tokens per window, including question and special tokens
  std::size_t doc_stride = 128;       ///< tokens between the starts of two windows (BERT's run_squad)
  std::size_t max_query_length = 64;  ///< tokens of the question
  bool skip_tokens = false;  ///< a stride longer than the window skips tokens; else it is limited to the window
  bool ask_cls = true;       ///< a window without the answer is labelled [CLS]; else it has no label
};

/// Splits a question and its context into windows ([CLS] question [SEP] part of the context [SEP], by the tokenizer's
/// template) and appends them as rows. A window's gold answer is the tokens that overlap the answer's code points; a
/// window that does not contain the whole answer has none. Windows overlap, so that an answer near the end of one is in
/// the middle of the next; every token of the context is in a window (unless skip_tokens).
void append_windows(const Tokenizer& tokenizer, std::string_view question, std::string_view context,
                    const std::optional<AnswerView>& answer, const WindowOptions& options, EncodedPart& out);

}  // namespace chorus::inline tasks
