#include "application/tasks/span_windows.h"

#include <fmt/format.h>

#include <algorithm>

#include "application/models/loss.h"
#include "core/base/error.h"

namespace chorus::inline tasks {
namespace {

/// A pair's tokens in parts: before the context, the context, after it.
struct Parts {
  std::size_t context_begin = 0, context_end = 0;
  std::vector<std::size_t> before;  // tokens before the context, the question truncated
};

Parts parts_of(const Encoding& pair, std::size_t max_query) {
  Parts parts;
  const auto second = [&](std::int8_t sequence) { return sequence == 1; };
  const auto begin = std::find_if(pair.sequences.begin(), pair.sequences.end(), second);
  // Without a token of context, the window is the question alone; the context's index is before the last special token.
  parts.context_begin = begin == pair.sequences.end() ? pair.size() - std::min<std::size_t>(1, pair.size())
                                                      : static_cast<std::size_t>(begin - pair.sequences.begin());
  parts.context_end = parts.context_begin +
                      static_cast<std::size_t>(std::count_if(pair.sequences.begin(), pair.sequences.end(), second));
  std::size_t asked = 0;
  for (std::size_t i = 0; i < parts.context_begin; ++i) {
    if (pair.sequences[i] == 0 && ++asked > max_query) continue;
    parts.before.push_back(i);
  }
  return parts;
}

}  // namespace

void append_windows(const Tokenizer& tokenizer, std::string_view question, std::string_view context,
                    const std::optional<AnswerView>& answer, const WindowOptions& options, EncodedPart& out) {
  // Some SQuAD questions begin with spaces, which would become tokens in byte-level tokenizers.
  question.remove_prefix(std::min(question.find_first_not_of(" \t\n\r"), question.size()));
  const Encoding pair = tokenizer.encode_pair(question, context);
  const Parts parts = parts_of(pair, options.max_query_length);
  const std::size_t around = parts.before.size() + (pair.size() - parts.context_end);
  if (around >= options.max_length) {
    throw ConfigError(
        fmt::format("max_length {} leaves no room for context beside a question of {} tokens; raise it or "
                    "lower max_query_length",
                    options.max_length, around));
  }
  const std::size_t room = options.max_length - around;
  const std::size_t step = options.skip_tokens ? options.doc_stride : std::min(options.doc_stride, room);
  const std::size_t size = parts.context_end - parts.context_begin;

  std::size_t first = size, last = size;  // tokens of the context that overlap the answer
  if (answer) {
    for (std::size_t i = 0; i < size; ++i) {
      const TextSpan span = pair.offsets[parts.context_begin + i];
      if (span.end <= answer->begin || span.begin >= answer->end || span.begin == span.end) continue;
      if (first == size) first = i;
      last = i;
    }
    if (first < size && (pair.offsets[parts.context_begin + first].begin != answer->begin ||
                         pair.offsets[parts.context_begin + last].end != answer->end)) {
      out.count(EncodeCount::kInexactAnswers);
    }
  }

  const bool types =
      std::any_of(pair.type_ids.begin(), pair.type_ids.end(), [](std::int32_t type) { return type != 0; });
  bool held = false;
  for (std::size_t begin = 0;; begin += step) {
    const std::size_t end = std::min(begin + room, size);
    const std::size_t row = out.ids.size();
    const auto push = [&](std::size_t i) {
      out.ids.push_back(pair.ids[i]);
      if (types) out.types.push_back(static_cast<std::uint8_t>(pair.type_ids[i]));
      const bool of_context = i >= parts.context_begin && i < parts.context_end;
      out.char_begin.push_back(of_context ? pair.offsets[i].begin : 0);
      out.char_end.push_back(of_context ? pair.offsets[i].end : 0);
    };
    if (types) out.types.resize(row, 0);
    for (const std::size_t i : parts.before) push(i);
    for (std::size_t i = begin; i < end; ++i) push(parts.context_begin + i);
    for (std::size_t i = parts.context_end; i < pair.size(); ++i) push(i);
    if (out.ids.size() == row) {
      throw DataError("a question and its context have no token at all");
    }
    if (!types && !out.types.empty()) out.types.resize(out.ids.size(), 0);

    const auto before = static_cast<std::uint32_t>(parts.before.size());
    out.context_begin.push_back(before);
    out.context_end.push_back(before + static_cast<std::uint32_t>(end - begin));
    const bool holds = first < size && first >= begin && last < end;
    held = held || holds;
    const std::int32_t none = answer && !options.ask_cls ? kIgnored : 0;
    out.starts.push_back(holds ? static_cast<std::int32_t>(before + first - begin) : none);
    out.ends.push_back(holds ? static_cast<std::int32_t>(before + last - begin) : none);
    out.end_row();
    if (begin + room >= size) break;
    // With a stride longer than the window, the next window may start past the end.
    if (begin + step >= size) break;
  }
  if (answer && !held) out.count(EncodeCount::kLostAnswers);
}

}  // namespace chorus::inline tasks
