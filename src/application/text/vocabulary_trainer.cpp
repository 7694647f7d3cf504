#include "application/text/vocabulary_trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <queue>
#include <set>

#include "application/text/hugging_face.h"
#include "application/text/subword_model.h"
#include "core/base/error.h"
#include "core/base/utf8.h"

namespace chorus::inline text {

namespace {

constexpr std::string_view kPrefix = "##";
constexpr std::size_t kMaxWordBytes = 400;

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

struct CountedWord {
  std::vector<std::int32_t> symbols;
  std::uint64_t count;
};

/// The merging: words as lists of symbols, pairs with counts and occurrences.
class Merger {
 public:
  Merger(std::vector<std::string> tokens, std::vector<CountedWord> words, bool wordpiece)
      : tokens_(std::move(tokens)), words_(std::move(words)), wordpiece_(wordpiece) {
    for (std::size_t w = 0; w < words_.size(); ++w) count_pairs(w, 1);
    for (const auto& [key, count] : counts_) offer(key, count);
    for (std::size_t id = 0; id < tokens_.size(); ++id) ids_.emplace(tokens_[id], static_cast<std::int32_t>(id));
  }

  void run(std::size_t size, std::uint64_t min_frequency) {
    while (tokens_.size() < size && !queue_.empty()) {
      const Candidate top = queue_.top();
      queue_.pop();
      const auto now = counts_.find(top.key);
      if (now == counts_.end() || now->second <= 0) continue;
      if (static_cast<std::uint64_t>(now->second) != top.count) {
        offer(top.key, now->second);
        continue;
      }
      if (top.count < min_frequency) break;
      merge(static_cast<std::int32_t>(top.key >> 32), static_cast<std::int32_t>(top.key & 0xFFFFFFFFu));
    }
  }

  std::vector<std::string> tokens_;
  std::vector<ModelSpec::Merge> merges_;

 private:
  struct Candidate {
    std::uint64_t count;
    std::string spelling;  ///< left, NUL, right: breaks ties
    std::uint64_t key;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : spelling > other.spelling;
    }
  };

  const std::string& token(std::int32_t id) const { return tokens_[static_cast<std::size_t>(id)]; }

  void offer(std::uint64_t key, std::int64_t count) {
    if (count <= 0) return;
    std::string spelling = token(static_cast<std::int32_t>(key >> 32));
    spelling.push_back('\0');
    spelling += token(static_cast<std::int32_t>(key & 0xFFFFFFFFu));
    queue_.push({static_cast<std::uint64_t>(count), std::move(spelling), key});
  }

  void count_pairs(std::size_t word, int sign) {
    const auto& [symbols, count] = words_[word];
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const std::uint64_t key = pair_key(symbols[i], symbols[i + 1]);
      counts_[key] += sign * static_cast<std::int64_t>(count);
      if (sign > 0) places_[key].push_back(static_cast<std::uint32_t>(word));
    }
  }

  void merge(std::int32_t left, std::int32_t right) {
    std::string joined = token(left);
    std::string_view rest = token(right);
    if (wordpiece_ && rest.starts_with(kPrefix)) rest.remove_prefix(kPrefix.size());
    joined.append(rest);
    const auto [found, fresh] = ids_.emplace(joined, static_cast<std::int32_t>(tokens_.size()));
    const std::int32_t result = found->second;
    if (fresh) tokens_.push_back(joined);
    merges_.push_back({left, right, result});

    std::vector<std::uint32_t> words = std::move(places_[pair_key(left, right)]);
    places_.erase(pair_key(left, right));
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    std::set<std::uint64_t> touched;
    for (const std::uint32_t w : words) {
      auto& symbols = words_[w].symbols;
      count_pairs(w, -1);
      std::size_t kept = 0;
      for (std::size_t i = 0; i < symbols.size(); ++i) {
        if (i + 1 < symbols.size() && symbols[i] == left && symbols[i + 1] == right) {
          symbols[kept++] = result;
          ++i;
        } else {
          symbols[kept++] = symbols[i];
        }
      }
      symbols.resize(kept);
      count_pairs(w, 1);
      for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
        if (symbols[i] == result || symbols[i + 1] == result) touched.insert(pair_key(symbols[i], symbols[i + 1]));
      }
    }
    counts_.erase(pair_key(left, right));
    for (const std::uint64_t key : touched) offer(key, counts_[key]);
  }

  std::vector<CountedWord> words_;
  bool wordpiece_;
  std::unordered_map<std::uint64_t, std::int64_t> counts_;
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> places_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::priority_queue<Candidate> queue_;
};

std::vector<std::string> specials_of(ModelSpec::Kind kind) {
  if (kind == ModelSpec::Kind::kWordPiece) return {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  return {"<|endoftext|>"};
}

/// The most frequent characters; equal ones in code point order.
std::set<char32_t> frequent_characters(const std::unordered_map<std::string, std::uint64_t>& counts, std::size_t most) {
  std::map<char32_t, std::uint64_t> seen;
  for (const auto& [word, count] : counts) {
    for (std::size_t at = 0; at < word.size();) seen[utf8::next(word, at)] += count;
  }
  std::vector<std::pair<char32_t, std::uint64_t>> sorted(seen.begin(), seen.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  if (sorted.size() > most) sorted.resize(most);
  std::set<char32_t> out;
  for (const auto& [code, count] : sorted) out.insert(code);
  return out;
}

std::string character(char32_t code) {
  std::string out;
  utf8::append(out, code);
  return out;
}

}  // namespace

VocabularyTrainer::VocabularyTrainer(ModelSpec::Kind kind, const TrainerOptions& options)
    : kind_(kind), options_(options) {
  check(kind != ModelSpec::Kind::kUnigram, "Unigram vocabularies are not trained here");
  const std::size_t least = specials_of(kind).size() + (kind == ModelSpec::Kind::kBpe ? 256 : 1);
  if (options.vocabulary_size <= least || options.vocabulary_size > kMaxTokens) {
    throw ConfigError(
        fmt::format("a vocabulary of {} tokens cannot be trained; it takes more than {} (special tokens and "
                    "the alphabet) and at most {}",
                    options.vocabulary_size, least, kMaxTokens));
  }
  ModelSpec empty;
  empty.tokens = specials_of(kind);
  BertOptions bert;
  bert.lowercase = options.lowercase;
  const TokenizerSpec shell = kind == ModelSpec::Kind::kWordPiece ? bert_spec(std::move(empty), bert, {})
                                                                  : gpt2_spec(std::move(empty), false, {});
  normalizer_ = Normalizer(shell.normalizer);
  pre_tokenizer_ = PreTokenizer(shell.pre_tokenizer);
}

void VocabularyTrainer::add(std::string_view text) {
  AlignedText work;
  AlignedText spare;
  std::vector<WordSpan> words;
  const std::string repaired = utf8::replace_invalid(text);
  work.assign(repaired, 0, false);
  normalizer_.run(work, spare);
  pre_tokenizer_.run(work, spare, words, true);
  for (const auto& span : words) {
    if (span.end - span.begin <= kMaxWordBytes) ++counts_[work.bytes.substr(span.begin, span.end - span.begin)];
  }
}

TokenizerSpec VocabularyTrainer::train() const {
  if (counts_.empty()) throw DataError("no word in the text to train a vocabulary from; give other files");
  const bool wordpiece = kind_ == ModelSpec::Kind::kWordPiece;
  std::vector<std::string> tokens = specials_of(kind_);
  std::unordered_map<std::string, std::int32_t> ids;
  const auto id_of = [&](const std::string& token) {
    const auto [found, fresh] = ids.emplace(token, static_cast<std::int32_t>(tokens.size()));
    if (fresh) tokens.push_back(token);
    return found->second;
  };
  std::set<char32_t> alphabet;
  if (wordpiece) {
    alphabet = frequent_characters(counts_, std::min(options_.max_alphabet, options_.vocabulary_size - tokens.size()));
    for (const char32_t code : alphabet) id_of(character(code));
  } else {
    for (const char32_t code : byte_alphabet()) id_of(character(code));
  }
  // Sorted by spelling, so that new ids do not depend on the hash table.
  const std::map<std::string, std::uint64_t> sorted(counts_.begin(), counts_.end());
  std::vector<CountedWord> words;
  for (const auto& [word, count] : sorted) {
    CountedWord counted{{}, count};
    const std::string spelled = wordpiece ? word : spell_bytes(word);
    bool known = true;
    for (std::size_t at = 0; at < spelled.size() && known;) {
      const bool inside = at > 0;
      const char32_t code = utf8::next(spelled, at);
      known = !wordpiece || alphabet.contains(code);
      std::string symbol(inside && wordpiece ? kPrefix : std::string_view());
      utf8::append(symbol, code);
      if (known) counted.symbols.push_back(id_of(symbol));
    }
    if (known) words.push_back(std::move(counted));
  }
  Merger merger(std::move(tokens), std::move(words), wordpiece);
  merger.run(options_.vocabulary_size, options_.min_frequency);
  ModelSpec model;
  model.tokens = std::move(merger.tokens_);
  if (!wordpiece) model.merges = std::move(merger.merges_);
  return finish(std::move(model));
}

TokenizerSpec VocabularyTrainer::finish(ModelSpec model) const {
  if (kind_ == ModelSpec::Kind::kBpe) return gpt2_spec(std::move(model), false, {});
  BertOptions options;
  options.lowercase = options_.lowercase;
  return bert_spec(std::move(model), options, {});
}

}  // namespace chorus::inline text
