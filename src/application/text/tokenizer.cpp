#include "application/text/tokenizer.h"

#include <algorithm>
#include <limits>
#include <mutex>

#include "application/text/added_tokens.h"
#include "application/text/aligned_text.h"
#include "application/text/decoder.h"
#include "application/text/normalizer.h"
#include "application/text/pre_tokenizer.h"
#include "application/text/subword_model.h"
#include "application/text/tokenizer_spec.h"
#include "application/text/truncation.h"
#include "application/text/unicode.h"
#include "application/text/vocabulary.h"
#include "application/text/word_cache.h"
#include "core/base/error.h"
#include "core/base/utf8.h"

namespace chorus::inline text {

/// Scratch memory and cache of one call, pooled for reuse.
struct Tokenizer::Scratch {
  AlignedText work;
  AlignedText spare;
  AlignedText part;
  std::vector<WordSpan> words;
  std::vector<Piece> pieces;
  std::vector<AddedTokenFinder::Match> matches;
  std::vector<AddedTokenFinder::Match> inner_matches;
  WordCache cache;
};

/// The tokens of one text before special ones are added.
struct Tokenizer::Columns {
  std::vector<std::int32_t> ids;
  std::vector<TextSpan> offsets;
  std::vector<std::int32_t> words;
  bool aligned = true;
  bool at_start = true;
  std::size_t limit = std::numeric_limits<std::size_t>::max();  ///< stop after this many tokens
};

struct Tokenizer::Parts {
  TokenizerSpec spec;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::unique_ptr<SubwordModel> model;
  AddedTokenFinder raw_added;
  AddedTokenFinder normalized_added;
  Vocabulary vocabulary;  ///< model and added tokens together
  std::vector<bool> is_special;
  std::vector<std::pair<std::uint8_t, std::uint8_t>> spaces;  ///< by id: leading, trailing; for trim_offsets
  SpecialIds special;
  std::uint64_t fingerprint = 0;

  std::mutex mutex;
  std::vector<std::unique_ptr<Scratch>> free;
};

class Tokenizer::Borrowed {
 public:
  explicit Borrowed(Parts& parts) : parts_(parts) {
    {
      const std::lock_guard lock(parts_.mutex);
      if (!parts_.free.empty()) {
        scratch_ = std::move(parts_.free.back());
        parts_.free.pop_back();
      }
    }
    if (!scratch_) scratch_ = std::make_unique<Scratch>();
  }
  ~Borrowed() {
    const std::lock_guard lock(parts_.mutex);
    parts_.free.push_back(std::move(scratch_));
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  Scratch& operator*() { return *scratch_; }

 private:
  Parts& parts_;
  std::unique_ptr<Scratch> scratch_;
};

namespace {

Vocabulary all_tokens(const TokenizerSpec& spec) {
  std::vector<std::string> tokens = spec.model.tokens;
  for (const auto& added : spec.added_tokens) {
    const auto id = static_cast<std::size_t>(added.id);
    if (id >= tokens.size()) tokens.resize(id + 1);
    tokens[id] = added.content;
  }
  return Vocabulary(std::move(tokens));
}

std::pair<std::uint8_t, std::uint8_t> count_spaces(std::string_view token) {
  const std::u32string codes = utf8::to_utf32(token);
  const auto is_space = [](char32_t c) { return c == 0x120 || unicode::is_space(c); };
  const auto leading = std::find_if_not(codes.begin(), codes.end(), is_space) - codes.begin();
  const auto trailing = std::find_if_not(codes.rbegin(), codes.rend(), is_space) - codes.rbegin();
  const auto narrow = [](std::ptrdiff_t n) { return static_cast<std::uint8_t>(std::min<std::ptrdiff_t>(n, 255)); };
  return {narrow(leading), narrow(trailing)};
}

/// Trims the spaces at both ends of token `index` from its offsets.
void trim(const PostProcessorSpec& post, std::pair<std::uint8_t, std::uint8_t> spaces, std::size_t index,
          TextSpan& span) {
  auto [leading, trailing] = spaces;
  if (leading > 0) {
    if (post.trim_keeps_prefix && (index == 0 || span.begin == 0)) --leading;
    span.begin = std::min(span.begin + leading, span.end);
  }
  if (trailing > 0 && span.end >= trailing) span.end = std::max(span.end - trailing, span.begin);
}

}  // namespace

Tokenizer::Tokenizer(TokenizerSpec spec) : parts_(std::make_unique<Parts>()) {
  Parts& p = *parts_;
  p.spec = std::move(spec);
  check_spec(p.spec);
  p.normalizer = Normalizer(p.spec.normalizer);
  p.pre_tokenizer = PreTokenizer(p.spec.pre_tokenizer);
  p.model = make_model(p.spec.model, p.pre_tokenizer.byte_level());
  p.vocabulary = all_tokens(p.spec);
  p.is_special.assign(p.vocabulary.size(), false);
  std::vector<AddedToken> raw;
  std::vector<AddedToken> normalized;
  for (auto token : p.spec.added_tokens) {
    if (token.special) p.is_special[static_cast<std::size_t>(token.id)] = true;
    if (token.normalized) token.content = p.normalizer.run(token.content);
    (token.normalized ? normalized : raw).push_back(token);
  }
  p.raw_added = AddedTokenFinder(std::move(raw));
  p.normalized_added = AddedTokenFinder(std::move(normalized));
  if (p.spec.post_processor.trim_offsets) {
    for (const auto& token : p.vocabulary.tokens()) p.spaces.push_back(count_spaces(token));
    // Added tokens are trimmed where they are found, by the text they matched.
    for (const auto& token : p.spec.added_tokens) p.spaces[static_cast<std::size_t>(token.id)] = {0, 0};
  }
  const auto& names = p.spec.special;
  p.special = {id(names.pad),  id(names.unk), id(names.cls), id(names.sep),
               id(names.mask), id(names.bos), id(names.eos)};
  p.fingerprint = fingerprint_of(p.spec);
}

Tokenizer::~Tokenizer() = default;

void Tokenizer::cut_words(Scratch& s, Columns& out) const {
  const SubwordModel& model = *parts_->model;
  const AlignedText& text = s.work;
  const auto emit = [&](std::int32_t id, std::size_t begin, std::size_t end) {
    out.ids.push_back(id);
    if (out.aligned) out.offsets.push_back({text.begin[begin], text.end[end - 1]});
  };
  for (const WordSpan span : s.words) {
    if (out.ids.size() >= out.limit) return;
    const std::string_view word(text.bytes.data() + span.begin, span.end - span.begin);
    WordCache::Slot* slot = nullptr;
    if (word.size() <= WordCache::kMaxBytes) {
      bool known = false;
      std::tie(slot, known) = s.cache.find(word);
      if (known) {
        for (std::size_t i = 0; i < slot->count; ++i) {
          emit(slot->ids[i], span.begin + slot->begin[i], span.begin + slot->end[i]);
        }
        continue;
      }
    }
    s.pieces.clear();
    model.cut(word, s.pieces);
    if (slot != nullptr) s.cache.store(*slot, word, s.pieces);
    for (const Piece& piece : s.pieces) emit(piece.id, span.begin + piece.begin, span.begin + piece.end);
  }
}

void Tokenizer::add_match(std::int32_t id, std::string_view surface, TextSpan span, Columns& out) const {
  const auto& post = parts_->spec.post_processor;
  if (out.aligned) {
    if (post.trim_offsets) trim(post, count_spaces(surface), out.ids.size(), span);
    out.offsets.push_back(span);
  }
  out.ids.push_back(id);
}

void Tokenizer::encode_segment(Scratch& s, Columns& out, bool at_start) const {
  const Parts& p = *parts_;
  p.normalizer.run(s.work, s.spare);
  if (p.normalized_added.empty()) {
    p.pre_tokenizer.run(s.work, s.spare, s.words, at_start);
    return cut_words(s, out);
  }
  p.normalized_added.find(s.work.bytes, s.inner_matches);
  std::swap(s.work, s.part);
  const auto run_part = [&](std::size_t begin, std::size_t end) {
    if (begin == end) return;
    s.work.clear(s.part.aligned);
    s.work.copy(s.part, begin, end);
    p.pre_tokenizer.run(s.work, s.spare, s.words, at_start && begin == 0);
    cut_words(s, out);
  };
  std::size_t done = 0;
  for (const auto& match : s.inner_matches) {
    run_part(done, match.begin);
    TextSpan span;
    if (out.aligned) span = {s.part.begin[match.begin], s.part.end[match.end - 1]};
    add_match(match.id, std::string_view(s.part.bytes).substr(match.begin, match.end - match.begin), span, out);
    done = match.end;
  }
  run_part(done, s.part.bytes.size());
}

void Tokenizer::encode_plain(std::string_view text, Scratch& s, Columns& out) const {
  if (text.size() >= std::numeric_limits<std::uint32_t>::max() / 4) {
    throw DataError("a text of more than a gigabyte cannot be tokenized in one piece; split it into lines");
  }
  std::string repaired;
  if (!utf8::valid(text)) {
    repaired = utf8::replace_invalid(text);
    text = repaired;
  }
  parts_->raw_added.find(text, s.matches);
  std::uint32_t position = 0;
  std::size_t done = 0;
  const auto run_segment = [&](std::size_t end) {
    if (done == end || out.ids.size() >= out.limit) return;
    const std::uint32_t behind = s.work.assign(text.substr(done, end - done), position, out.aligned);
    encode_segment(s, out, out.at_start && done == 0);
    position = behind;
  };
  for (const auto& match : s.matches) {
    run_segment(match.begin);
    const std::string_view surface = text.substr(match.begin, match.end - match.begin);
    const auto length = static_cast<std::uint32_t>(utf8::count(surface));
    add_match(match.id, surface, {position, position + length}, out);
    position += length;
    done = match.end;
  }
  run_segment(text.size());
}

void Tokenizer::trim_offsets(Columns& columns) const {
  const auto& post = parts_->spec.post_processor;
  if (!post.trim_offsets) return;
  for (std::size_t i = 0; i < columns.ids.size(); ++i) {
    trim(post, parts_->spaces[static_cast<std::size_t>(columns.ids[i])], i, columns.offsets[i]);
  }
}

Encoding Tokenizer::assemble(const Columns& first, const Columns* second, const EncodeOptions& options) const {
  const bool pair = second != nullptr;
  const auto& post = parts_->spec.post_processor;
  const auto& items = pair ? post.pair : post.single;
  const std::size_t special = options.special_tokens ? special_count(pair) : 0;
  const Windows windows = cut_to_length(first.ids.size(), pair ? second->ids.size() : 0, pair, special, options);
  const auto build = [&](Window a, Window b) {
    Encoding out;
    const std::size_t size = special + (a.end - a.begin) + (b.end - b.begin);
    out.ids.reserve(size);
    out.offsets.reserve(size);
    out.type_ids.reserve(size);
    out.sequences.reserve(size);
    const bool with_words = !first.words.empty();
    for (const auto& item : items) {
      if (item.kind == TemplateItem::Kind::kSpecial) {
        if (!options.special_tokens) continue;
        out.ids.push_back(item.id);
        out.offsets.push_back({0, 0});
        out.type_ids.push_back(item.type_id);
        out.sequences.push_back(Encoding::kNoSequence);
        if (with_words) out.words.push_back(-1);
        continue;
      }
      const bool is_first = item.kind == TemplateItem::Kind::kFirst;
      const Columns& source = is_first ? first : *second;
      const Window window = is_first ? a : b;
      const auto from = static_cast<std::ptrdiff_t>(window.begin);
      const auto to = static_cast<std::ptrdiff_t>(window.end);
      out.ids.insert(out.ids.end(), source.ids.begin() + from, source.ids.begin() + to);
      out.offsets.insert(out.offsets.end(), source.offsets.begin() + from, source.offsets.begin() + to);
      out.type_ids.resize(out.ids.size(), item.type_id);
      out.sequences.resize(out.ids.size(), is_first ? std::int8_t{0} : std::int8_t{1});
      if (with_words) out.words.insert(out.words.end(), source.words.begin() + from, source.words.begin() + to);
    }
    return out;
  };
  Encoding out = build(windows.first[0], windows.second[0]);
  if (!options.overflow) return out;
  for (std::size_t a = 1; a < windows.first.size(); ++a) {
    for (const Window b : windows.second) out.overflow.push_back(build(windows.first[a], b));
  }
  for (std::size_t b = 1; b < windows.second.size(); ++b) {
    out.overflow.push_back(build(windows.first[0], windows.second[b]));
  }
  return out;
}

Encoding Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  Borrowed scratch(*parts_);
  Columns columns;
  columns.ids.reserve(text.size() / 4 + 4);
  columns.offsets.reserve(text.size() / 4 + 4);
  if (options.max_length > 0 && !options.overflow) columns.limit = options.max_length + 1;
  encode_plain(text, *scratch, columns);
  trim_offsets(columns);
  return assemble(columns, nullptr, options);
}

Encoding Tokenizer::encode_pair(std::string_view first, std::string_view second, const EncodeOptions& options) const {
  Borrowed scratch(*parts_);
  Columns a;
  Columns b;
  encode_plain(first, *scratch, a);
  encode_plain(second, *scratch, b);
  trim_offsets(a);
  trim_offsets(b);
  return assemble(a, &b, options);
}

Encoding Tokenizer::encode_words(std::span<const std::string_view> words, const EncodeOptions& options) const {
  Borrowed scratch(*parts_);
  Columns columns;
  columns.words.reserve(words.size() + 4);
  for (std::size_t i = 0; i < words.size(); ++i) {
    encode_plain(words[i], *scratch, columns);
    columns.words.resize(columns.ids.size(), static_cast<std::int32_t>(i));
  }
  trim_offsets(columns);
  Encoding out = assemble(columns, nullptr, options);
  out.words.resize(out.ids.size(), -1);
  return out;
}

std::size_t Tokenizer::encode_ids(std::string_view text, std::vector<std::int32_t>& ids, bool special_tokens,
                                  std::size_t limit) const {
  Borrowed scratch(*parts_);
  const std::size_t before = ids.size();
  Columns columns;
  columns.aligned = false;
  columns.ids.swap(ids);
  for (const auto& item : parts_->spec.post_processor.single) {
    if (item.kind == TemplateItem::Kind::kFirst) {
      if (limit > 0) columns.limit = columns.ids.size() + limit;
      encode_plain(text, *scratch, columns);
    } else if (special_tokens) {
      columns.ids.push_back(item.id);
    }
  }
  columns.ids.swap(ids);
  return ids.size() - before;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  std::vector<std::string_view> pieces;
  for (const std::int32_t id : ids) {
    if (skip_special && is_special(id)) continue;
    const std::string_view piece = token(id);
    if (!piece.empty()) pieces.push_back(piece);
  }
  return join_tokens(parts_->spec.decoder, pieces);
}

std::vector<std::string> Tokenizer::tokens(const Encoding& encoding) const {
  std::vector<std::string> out;
  out.reserve(encoding.size());
  for (const std::int32_t id : encoding.ids) out.emplace_back(token(id));
  return out;
}

std::size_t Tokenizer::vocabulary_size() const { return parts_->vocabulary.size(); }

std::string_view Tokenizer::token(std::int32_t id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= vocabulary_size()) return {};
  return parts_->vocabulary.tokens()[static_cast<std::size_t>(id)];
}

std::optional<std::int32_t> Tokenizer::id(std::string_view token) const {
  if (token.empty()) return std::nullopt;
  const std::int32_t found = parts_->vocabulary.find(token);
  return found == Vocabulary::kNone ? std::nullopt : std::optional(found);
}

bool Tokenizer::is_special(std::int32_t id) const {
  return id >= 0 && static_cast<std::size_t>(id) < vocabulary_size() &&
         parts_->is_special[static_cast<std::size_t>(id)];
}

std::size_t Tokenizer::special_count(bool pair) const {
  const auto& items = pair ? parts_->spec.post_processor.pair : parts_->spec.post_processor.single;
  return static_cast<std::size_t>(std::count_if(
      items.begin(), items.end(), [](const TemplateItem& i) { return i.kind == TemplateItem::Kind::kSpecial; }));
}

const Tokenizer::SpecialIds& Tokenizer::special() const { return parts_->special; }
std::size_t Tokenizer::max_length() const { return parts_->spec.max_length; }
std::uint64_t Tokenizer::fingerprint() const { return parts_->fingerprint; }
const TokenizerSpec& Tokenizer::spec() const { return parts_->spec; }

}  // namespace chorus::inline text
