#include "application/text/normalizer.h"

#include <algorithm>

#include "application/text/unicode.h"
#include "core/base/utf8.h"

namespace chorus::inline text {

namespace {

using StepKind = NormalizerStep::Kind;

/// Calls `each(code, from, to)` for every character and its bytes.
template <typename F>
void for_each_character(const AlignedText& text, F each) {
  for (std::size_t at = 0; at < text.bytes.size();) {
    const std::size_t from = at;
    const char32_t code = utf8::next(text.bytes, at);
    each(code, from, at);
  }
}

/// BERT's four passes in one: each written character is aligned to its source character.
void run_bert(const NormalizerStep& step, const AlignedText& in, AlignedText& out) {
  const bool strip = step.strip_accents.value_or(step.lowercase);
  out.clear(in.aligned);
  const auto lowered = [&](char32_t code, std::size_t from) {
    if (!step.lowercase) return out.push(code, in, from);
    const auto l = unicode::lower(code);
    out.push(l.first, in, from);
    if (l.second != 0) out.push(l.second, in, from);
  };
  const auto stripped = [&](char32_t code, std::size_t from) {
    if (!strip || code < 128) return lowered(code, from);
    char32_t parts[unicode::kMaxDecomposition];
    const std::size_t n = unicode::decompose(code, false, parts);
    for (std::size_t i = 0; i < n; ++i) {
      if (!unicode::is_nonspacing_mark(parts[i])) lowered(parts[i], from);
    }
  };
  for_each_character(in, [&](char32_t code, std::size_t from, std::size_t) {
    if (step.clean_text) {
      if (code == 0 || code == utf8::kReplacement || unicode::is_control(code)) return;
      if (unicode::is_space(code)) code = ' ';
    }
    if (step.handle_chinese_chars && unicode::is_cjk(code)) {
      out.push(' ', in, from);
      stripped(code, from);
      out.push(' ', in, from);
    } else {
      stripped(code, from);
    }
  });
}

void run_lowercase(const AlignedText& in, AlignedText& out) {
  out.clear(in.aligned);
  for_each_character(in, [&](char32_t code, std::size_t from, std::size_t) {
    const auto l = unicode::lower(code);
    out.push(l.first, in, from);
    if (l.second != 0) out.push(l.second, in, from);
  });
}

void run_strip_accents(const AlignedText& in, AlignedText& out) {
  out.clear(in.aligned);
  for_each_character(in, [&](char32_t code, std::size_t from, std::size_t) {
    if (!unicode::is_mark(code)) out.push(code, in, from);
  });
}

/// Decomposition with canonical ordering of the marks between two starters.
void run_decompose(bool compatibility, const AlignedText& in, AlignedText& out) {
  Rewriter rewriter(in, out);
  struct Pending {
    char32_t code;
    int change;
    int order;
  };
  std::vector<Pending> marks;
  const auto flush = [&] {
    std::stable_sort(marks.begin(), marks.end(), [](const Pending& a, const Pending& b) { return a.order < b.order; });
    for (const auto& m : marks) rewriter.put(m.code, m.change);
    marks.clear();
  };
  for_each_character(in, [&](char32_t code, std::size_t, std::size_t) {
    char32_t parts[unicode::kMaxDecomposition];
    const std::size_t n = unicode::decompose(code, compatibility, parts);
    for (std::size_t i = 0; i < n; ++i) {
      const int order = unicode::combining_class(parts[i]);
      if (order == 0) flush();
      marks.push_back({parts[i], i > 0 ? 1 : 0, order});
    }
  });
  flush();
}

void run_strip(const NormalizerStep& step, const AlignedText& in, AlignedText& out) {
  std::size_t first = in.bytes.size();
  std::size_t last = 0;
  for_each_character(in, [&](char32_t code, std::size_t from, std::size_t to) {
    if (unicode::is_space(code)) return;
    first = std::min(first, from);
    last = to;
  });
  out.clear(in.aligned);
  const std::size_t from = step.strip_left ? first : 0;
  const std::size_t to = step.strip_right ? last : in.bytes.size();
  if (from < to) out.copy(in, from, to);
}

/// Every match becomes `content`, aligned to the last character of the match.
void put_replacement(const std::string& content, const AlignedText& in, std::size_t last, AlignedText& out) {
  for (std::size_t at = 0; at < content.size();) out.push(utf8::next(content, at), in, last);
}

void run_replace(const NormalizerStep& step, const AlignedText& in, AlignedText& out) {
  out.clear(in.aligned);
  std::size_t done = 0;
  while (!step.pattern.empty()) {
    const std::size_t found = in.bytes.find(step.pattern, done);
    if (found == std::string::npos) break;
    out.copy(in, done, found);
    done = found + step.pattern.size();
    put_replacement(step.content, in, done - 1, out);
  }
  out.copy(in, done, in.bytes.size());
}

void run_squeeze_spaces(const NormalizerStep& step, const AlignedText& in, AlignedText& out) {
  out.clear(in.aligned);
  for (std::size_t at = 0; at < in.bytes.size();) {
    std::size_t end = at;
    while (end < in.bytes.size() && in.bytes[end] == ' ') ++end;
    if (end - at >= 2) {
      put_replacement(step.content, in, end - 1, out);
      at = end;
      continue;
    }
    std::size_t next = in.bytes.find(' ', end);
    if (next == std::string::npos) next = in.bytes.size();
    out.copy(in, at, next);
    at = next;
  }
}

void run_prepend(const NormalizerStep& step, const AlignedText& in, AlignedText& out) {
  out.clear(in.aligned);
  if (in.bytes.empty()) return;
  put_replacement(step.content, in, 0, out);
  out.copy(in, 0, in.bytes.size());
}

/// Writes the replacement of `part` (a grapheme or a character), distributing the change in length like Hugging Face.
void put_rule(Rewriter& rewriter, std::string_view part, std::string_view rule) {
  const auto before = static_cast<int>(utf8::count(part));
  const auto after = static_cast<int>(utf8::count(rule));
  int written = 0;
  for (std::size_t at = 0; at < rule.size(); ++written) {
    rewriter.put(utf8::next(rule, at), written >= before ? 1 : 0);
  }
  if (after < before) rewriter.amend_last(after - before);
}

void run_precompiled(const Charsmap& rules, const std::array<bool, 128>& plain, const AlignedText& in,
                     AlignedText& out) {
  Rewriter rewriter(in, out);
  const std::string& bytes = in.bytes;
  const auto is_plain = [&](std::size_t at) {
    const auto byte = static_cast<unsigned char>(bytes[at]);
    return byte < 128 && plain[byte];
  };
  for (std::size_t at = 0; at < bytes.size();) {
    // Plain ASCII up to the character before the next grapheme that might hold more than one character.
    std::size_t run = at;
    while (run < bytes.size() && is_plain(run)) ++run;
    if (run < bytes.size() && run > at && static_cast<unsigned char>(bytes[run]) >= 0x80) --run;
    if (run > at && rewriter.copy_run(at, run)) {
      at = run;
      continue;
    }
    std::size_t end = at;
    char32_t left = utf8::next(bytes, end);
    std::int32_t state = 0;
    while (end < bytes.size()) {
      std::size_t peek = end;
      const char32_t right = utf8::next(bytes, peek);
      if (unicode::grapheme_break(left, right, state)) break;
      left = right;
      end = peek;
    }
    const std::string_view grapheme = std::string_view(bytes).substr(at, end - at);
    if (const auto rule = grapheme.size() < 6 ? rules.replacement(grapheme) : std::nullopt) {
      put_rule(rewriter, grapheme, *rule);
    } else {
      for (std::size_t i = 0; i < grapheme.size();) {
        const std::size_t from = i;
        const char32_t code = utf8::next(grapheme, i);
        const std::string_view part = grapheme.substr(from, i - from);
        if (const auto inner = rules.replacement(part)) {
          put_rule(rewriter, part, *inner);
        } else {
          rewriter.put(code, 0);
        }
      }
    }
    at = end;
  }
}

std::array<bool, 128> plain_ascii(const Charsmap& rules) {
  std::array<bool, 128> plain{};
  for (std::size_t c = 0; c < 128; ++c) {
    const char byte = static_cast<char>(c);
    plain[c] = c != '\r' && c != '\n' && !rules.replacement(std::string_view(&byte, 1));
  }
  return plain;
}

}  // namespace

Normalizer::Normalizer(const std::vector<NormalizerStep>& steps) {
  for (const auto& step : steps) {
    if (step.kind == StepKind::kPrecompiled && step.charsmap.empty()) continue;
    steps_.push_back({step, nullptr, {}});
    if (step.kind != StepKind::kPrecompiled) continue;
    steps_.back().charsmap = std::make_shared<const Charsmap>(step.charsmap);
    steps_.back().spec.charsmap.clear();
    steps_.back().plain = plain_ascii(*steps_.back().charsmap);
  }
  build_ascii_table();
}

void Normalizer::build_ascii_table() {
  ascii_.fill(kSlow);
  const bool context = std::any_of(steps_.begin(), steps_.end(), [](const Step& s) {
    return s.spec.kind == StepKind::kStrip || s.spec.kind == StepKind::kPrepend ||
           s.spec.kind == StepKind::kSqueezeSpaces;
  });
  if (context) return;
  AlignedText text;
  AlignedText spare;
  for (std::size_t c = 0; c < 128; ++c) {
    const char byte = static_cast<char>(c);
    if (byte == '\r' && !steps_.empty()) continue;  // with a line feed it may be one grapheme
    const bool in_pattern = std::any_of(steps_.begin(), steps_.end(), [&](const Step& s) {
      return s.spec.kind == StepKind::kReplace && s.spec.pattern.size() > 1 &&
             s.spec.pattern.find(byte) != std::string::npos;
    });
    if (in_pattern) continue;
    text.assign(std::string_view(&byte, 1), 0, false);
    for (const auto& step : steps_) run_step(step, text, spare);
    if (text.bytes.size() == 1 && static_cast<unsigned char>(text.bytes[0]) < 128) {
      ascii_[c] = static_cast<std::uint8_t>(text.bytes[0]);
    }
  }
}

void Normalizer::run_step(const Step& step, AlignedText& text, AlignedText& spare) const {
  switch (step.spec.kind) {
    // clang-format off
    case StepKind::kBert: run_bert(step.spec, text, spare); break;
    case StepKind::kLowercase: run_lowercase(text, spare); break;
    case StepKind::kNfd: run_decompose(false, text, spare); break;
    case StepKind::kNfkd: run_decompose(true, text, spare); break;
    case StepKind::kStripAccents: run_strip_accents(text, spare); break;
    case StepKind::kStrip: run_strip(step.spec, text, spare); break;
    case StepKind::kReplace: run_replace(step.spec, text, spare); break;
    case StepKind::kSqueezeSpaces: run_squeeze_spaces(step.spec, text, spare); break;
    case StepKind::kPrepend: run_prepend(step.spec, text, spare); break;
    case StepKind::kPrecompiled: run_precompiled(*step.charsmap, step.plain, text, spare); break;
      // clang-format on
  }
  std::swap(text, spare);
}

void Normalizer::run(AlignedText& text, AlignedText& spare) const {
  if (steps_.empty()) return;
  if (text.ascii) {
    std::uint8_t seen = 0;
    for (const char c : text.bytes) seen |= ascii_[static_cast<unsigned char>(c)];
    if (seen < 128) {
      for (char& c : text.bytes) c = static_cast<char>(ascii_[static_cast<unsigned char>(c)]);
      return;
    }
  }
  for (const auto& step : steps_) run_step(step, text, spare);
}

std::string Normalizer::run(std::string_view text) const {
  AlignedText aligned;
  AlignedText spare;
  aligned.assign(text, 0, false);
  run(aligned, spare);
  return aligned.bytes;
}

}  // namespace chorus::inline text
