#include "application/trainer/shared_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "application/text/unicode.h"
#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/base/utf8.h"
#include "core/device/torch_runtime.h"

namespace chorus::inline trainer {
namespace {

constexpr double kHidden = 0.15;  // share of the words that a masked model does not see
constexpr double kFloor = 1e-7;   // of a probability, so that its logarithm is finite

bool in_a_word(char32_t code) {
  const unicode::Kind kind = unicode::kind(code);
  return kind == unicode::Kind::kLetter || kind == unicode::Kind::kNumber || unicode::is_mark(code);
}

// The characters of a row's tokens.
struct Tokens {
  std::vector<TextSpan> spans;
  std::size_t shift = 0;  // special tokens before the text
};

// A row is the text's tokens, perhaps with a special token before and behind them, perhaps truncated.
Tokens tokens_of(const Tokenizer& tokenizer, std::string_view text, std::span<const std::int32_t> row) {
  const Encoding encoding = tokenizer.encode(text, {.special_tokens = false});
  Tokens best;
  for (const std::size_t shift : {std::size_t{0}, std::size_t{1}}) {
    if (row.size() < shift) break;
    const std::span<const std::int32_t> rest = row.subspan(shift);
    const auto same = static_cast<std::size_t>(
        std::mismatch(rest.begin(), rest.end(), encoding.ids.begin(), encoding.ids.end()).first - rest.begin());
    if (same > best.spans.size()) {
      best = {{encoding.offsets.begin(), encoding.offsets.begin() + static_cast<std::ptrdiff_t>(same)}, shift};
    }
  }
  const std::size_t least = std::min(row.size() - best.shift, encoding.size());
  if (best.spans.size() + 1 < least || (best.spans.empty() && least > 0)) {
    throw DataError("public: a row of the public set is not the encoding of its text");
  }
  return best;
}

// The same numbers for each client, [C, n].
at::Tensor for_clients(const std::vector<std::int64_t>& numbers, std::int64_t clients) {
  return torch::tensor(numbers, at::kLong).unsqueeze(0).repeat({clients, 1});
}

// The words a masked model has to predict: a pure function of the row's number.
std::vector<std::size_t> hidden_words(std::size_t words, std::uint64_t row) {
  std::vector<std::size_t> chosen;
  RandomStream draws({.seed = 0, .purpose = "hidden-words", .step = row});
  for (std::size_t word = 0; word < words; ++word) {
    if (draws.uniform() < kHidden) chosen.push_back(word);
  }
  if (chosen.empty() && words > 0) chosen.push_back(draws.next_u64() % words);
  return chosen;
}

}  // namespace

std::vector<TextWord> words_of(std::string_view text) {
  std::vector<TextWord> words;
  bool inside = false, beginning = false;
  std::uint32_t position = 0;
  for (std::size_t at = 0; at < text.size(); ++position) {
    const char32_t code = utf8::next(text, at);
    if (unicode::is_space(code)) {
      inside = false;
      continue;
    }
    if (!inside) words.push_back({position, position, ""});
    TextWord& word = words.back();
    beginning = inside ? beginning && in_a_word(code) : true;
    if (beginning) {
      const unicode::Lowered lowered = unicode::lower(code);
      utf8::append(word.beginning, lowered.first);
      if (lowered.second != 0) utf8::append(word.beginning, lowered.second);
      beginning = in_a_word(code);
    }
    word.end = position + 1;
    inside = true;
  }
  return words;
}

SharedWords::SharedWords(const Input& input) : masked_(input.task.head() == Head::kMaskedLm) {
  const Tokenizer& tokenizer = input.task.tokenizer();
  if (masked_) {
    if (!tokenizer.special().mask) {
      throw ConfigError("public: this tokenizer has no mask token, so no word can be hidden");
    }
    mask_ = *tokenizer.special().mask;
  }
  std::vector<std::vector<std::string>> begins;                // per row, of all its words
  std::map<std::int32_t, std::map<std::string, double>> uses;  // first token -> beginning -> how often
  for (std::size_t number = 0; number < input.set.rows.size(); ++number) {
    const std::uint32_t row = input.set.rows[number];
    const std::string_view text = input.data.text(input.set.data->example_of(row));
    const std::span<const std::int32_t> ids = input.set.data->ids(row);
    const Tokens tokens = tokens_of(tokenizer, text, ids);
    const std::vector<TextWord> words = words_of(text);
    std::vector<Place> places;
    std::vector<std::string> mine;
    std::size_t token = 0;
    for (const TextWord& word : words) {
      mine.push_back(word.beginning);
      while (token < tokens.spans.size() && tokens.spans[token].end <= word.begin) ++token;
      std::size_t end = token;
      while (end < tokens.spans.size() && tokens.spans[end].begin < word.end) ++end;
      if (token == tokens.spans.size()) continue;  // truncated
      places.push_back({static_cast<std::uint32_t>(token + tokens.shift),
                        static_cast<std::uint32_t>(std::max(end, token + 1) + tokens.shift)});
      uses[ids[token + tokens.shift]][word.beginning] += 1;
    }
    begins.push_back(std::move(mine));
    std::vector<Place> predicted;
    if (masked_) {
      for (const std::size_t word : hidden_words(words.size(), number)) {
        if (word < places.size()) predicted.push_back(places[word]);
      }
    } else if (!places.empty()) {
      predicted.assign(places.begin() + 1, places.end());
    }
    places_.push_back(std::move(predicted));
  }
  find_classes(begins, input.classes);

  std::map<std::string, std::int64_t, std::less<>> class_of;
  for (std::size_t c = 1; c < names_.size(); ++c) class_of[names_[c]] = static_cast<std::int64_t>(c);
  tokens_ = torch::empty({static_cast<std::int64_t>(uses.size())}, at::kLong);
  shares_ = torch::zeros({static_cast<std::int64_t>(uses.size()), classes()}, at::kFloat);
  std::int64_t next = 0;
  for (const auto& [token, beginnings] : uses) {
    double all = 0;
    for (const auto& [name, times] : beginnings) all += times;
    tokens_.data_ptr<std::int64_t>()[next] = token;
    float* share = shares_.data_ptr<float>() + next++ * classes();
    for (const auto& [name, times] : beginnings) {
      const auto found = class_of.find(name);
      share[found == class_of.end() ? 0 : found->second] += static_cast<float>(times / all);
    }
  }
  tokens_ = tokens_.to(input.device);
  shares_ = shares_.to(input.device);
}

// The most frequent beginnings; of equally frequent ones those that come first in the order of bytes.
void SharedWords::find_classes(const std::vector<std::vector<std::string>>& begins, std::int64_t most) {
  std::map<std::string, std::int64_t> times;
  for (const auto& row : begins) {
    for (const std::string& name : row) ++times[name];
  }
  std::vector<std::pair<std::int64_t, std::string>> order;
  for (const auto& [name, count] : times) order.emplace_back(-count, name);
  std::sort(order.begin(), order.end());
  names_.assign(1, "");
  for (const auto& [count, name] : order) {
    if (static_cast<std::int64_t>(names_.size()) >= most) break;
    names_.push_back(name);
  }
  names_.resize(static_cast<std::size_t>(most));
}

std::vector<std::int64_t> SharedWords::counts() const {
  std::vector<std::int64_t> counts;
  for (const auto& places : places_) counts.push_back(static_cast<std::int64_t>(places.size()));
  return counts;
}

std::vector<std::uint32_t> SharedWords::keep_predicted(const std::vector<std::uint32_t>& rows) {
  check(rows.size() == places_.size(), "one row per text");
  std::vector<std::uint32_t> kept;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!places_[i].empty()) kept.push_back(rows[i]);
  }
  std::erase_if(places_, [](const std::vector<Place>& places) { return places.empty(); });
  if (kept.empty()) {
    throw DataError(
        "public: no text has a word to predict; give texts of two words or more, and a task.max_length that does not "
        "cut them off");
  }
  return kept;
}

std::vector<std::int64_t> SharedWords::columns_in(const TaskBatch& batch, std::span<const std::uint32_t> rows) const {
  std::vector<std::int64_t> columns;
  std::int64_t column = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const Place& place : places_.at(rows[i])) columns.push_back(column + place.first - (masked_ ? 0 : 1));
    column += batch.batch.packing->lengths().at(0).at(i);
  }
  check(!columns.empty(), "texts without a word to predict are left out");
  return columns;
}

void SharedWords::hide_in(TaskBatch& batch, std::span<const std::uint32_t> rows) const {
  if (!masked_) return;
  const at::Device device = batch.batch.ids.device();
  at::Tensor ids = batch.batch.host_ids.clone();
  std::int64_t column = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const Place& place : places_.at(rows[i])) {
      ids.narrow(1, column + place.first, place.end - place.first).fill_(mask_);
    }
    column += batch.batch.packing->lengths().at(0).at(i);
  }
  batch.batch.host_ids = ids;
  batch.batch.ids = sent_to(device, ids);
}

TaskBatch SharedWords::collate(std::span<const ClientRows> cohort, std::span<const std::uint32_t> rows,
                               at::Device device) const {
  TaskBatch batch = pack_rows(cohort, device, masked_ ? Read::kAll : Read::kButLast);
  const std::vector<std::int64_t> columns = columns_in(batch, rows);
  std::vector<std::int64_t> labels;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::span<const std::int32_t> row = cohort[0].data->ids(cohort[0].rows[i]);
    for (const Place& place : places_.at(rows[i])) labels.push_back(row[place.first]);
  }
  const auto clients = static_cast<std::int64_t>(cohort.size());
  hide_in(batch, rows);
  batch.batch.wanted = sent_to(device, for_clients(columns, clients));
  batch.labels = sent_to(device, for_clients(labels, clients));
  batch.counted = torch::full({clients}, static_cast<std::int64_t>(columns.size()), batch.labels.options());
  return batch;
}

void SharedWords::add_to(TaskBatch& batch, std::span<const std::uint32_t> rows) const {
  const at::Device device = batch.batch.ids.device();
  const auto clients = static_cast<std::int64_t>(batch.rows.size());
  at::Tensor columns = sent_to(device, for_clients(columns_in(batch, rows), clients));
  if (masked_) {
    hide_in(batch, rows);
    const std::int64_t asked = batch.labels.size(1), more = columns.size(1);
    batch.batch.wanted = torch::cat({batch.batch.wanted, columns}, 1);
    batch.labels = torch::cat({batch.labels, torch::full({clients, more}, kIgnore, batch.labels.options())}, 1);
    columns = torch::arange(asked, asked + more, columns.options()).unsqueeze(0).repeat({clients, 1});
  }
  batch.fields = {columns};
}

at::Tensor SharedWords::beginnings(const TaskBatch& batch, const at::Tensor& logits) {
  return batch.fields.empty() ? logits : Packing::pick(logits, batch.fields[0]);
}

at::Tensor SharedWords::predictions(const at::Tensor& logits) const {
  const at::Tensor p = torch::softmax(logits.to(at::kFloat), -1);
  const at::Tensor begins = p.index_select(-1, tokens_);
  const at::Tensor known = torch::matmul(begins, shares_);
  const at::Tensor unknown = (1 - begins.sum(-1, true)).clamp_min(0);
  const at::Tensor q = torch::cat({known.narrow(-1, 0, 1) + unknown, known.narrow(-1, 1, classes() - 1)}, -1);
  return (q + kFloor).log();
}

}  // namespace chorus::inline trainer
