#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "application/data/dataset.h"
#include "application/tasks/encoded_columns.h"
#include "application/text/tokenizer.h"

namespace chorus::inline tasks {

struct WindowOptions {
  std::size_t max_length = 384;       ///< tokens of a window, question and special ones included
  std::size_t doc_stride = 128;       ///< tokens between the beginnings of two windows (BERT's run_squad)
  std::size_t max_query_length = 64;  ///< tokens of the question
  bool skip_tokens = false;           ///< a stride beyond the window leaves tokens out; else it is cut to the window
  bool ask_cls = true;                ///< a window without the answer asks for [CLS]; else it is not asked
};

/// Cuts a question and its context into windows ([CLS] question [SEP] part of the context [SEP], by the tokenizer's
/// template) and appends them as rows. The gold answer of a window are the tokens that touch the answer's code points;
/// a window that does not hold the whole answer has none. Windows overlap, so that an answer near the end of one stands
/// in the middle of the next; every token of the context is in one (unless skip_tokens).
void append_windows(const Tokenizer& tokenizer, std::string_view question, std::string_view context,
                    const std::optional<AnswerView>& answer, const WindowOptions& options, EncodedPart& out);

}  // namespace chorus::inline tasks
