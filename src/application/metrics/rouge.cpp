#include "application/metrics/rouge.h"

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>

#include "application/metrics/porter_stemmer.h"
#include "application/metrics/python_text.h"
#include "core/base/error.h"

namespace chorus::inline metrics {
namespace {

// Words as ids, equal for equal words on both sides.
using Ids = std::vector<std::uint32_t>;

class Words {
 public:
  Ids ids(const std::vector<std::string>& words) {
    Ids ids;
    ids.reserve(words.size());
    for (const std::string& word : words)
      ids.push_back(known_.try_emplace(word, static_cast<std::uint32_t>(known_.size())).first->second);
    return ids;
  }
  std::size_t size() const { return known_.size(); }

 private:
  std::unordered_map<std::string, std::uint32_t> known_;
};

RougeScore score_hits(std::size_t hits, std::size_t predicted, std::size_t actual) {
  RougeScore score;
  score.precision = static_cast<double>(hits) / static_cast<double>(std::max<std::size_t>(predicted, 1));
  score.recall = static_cast<double>(hits) / static_cast<double>(std::max<std::size_t>(actual, 1));
  const double sum = score.precision + score.recall;
  score.f1 = sum > 0 ? 2 * score.precision * score.recall / sum : 0;
  return score;
}

RougeScore score_ngrams(const Ids& prediction, const Ids& reference, std::size_t n) {
  const auto ngrams = [n](const Ids& ids) {
    std::unordered_map<std::uint64_t, std::size_t> counts;
    for (std::size_t i = 0; i + n <= ids.size(); ++i)
      ++counts[n == 1 ? ids[i] : (static_cast<std::uint64_t>(ids[i]) << 32) | ids[i + 1]];
    return counts;
  };
  const auto theirs = ngrams(reference);
  std::size_t hits = 0;
  for (const auto& [ngram, count] : ngrams(prediction))
    if (const auto found = theirs.find(ngram); found != theirs.end()) hits += std::min(count, found->second);
  const auto total = [n](const Ids& ids) { return ids.size() >= n ? ids.size() - n + 1 : 0; };
  return score_hits(hits, total(prediction), total(reference));
}

template <typename Word>
std::size_t lcs_length(const std::vector<Word>& a, const std::vector<Word>& b) {
  std::vector<std::size_t> row(b.size() + 1, 0);
  for (const Word& word : a) {
    std::size_t diagonal = 0;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = word == b[j - 1] ? diagonal + 1 : std::max(above, row[j - 1]);
      diagonal = above;
    }
  }
  return row.back();
}

// Marks the positions in `reference` of one longest common subsequence: the one that `rouge-score` reads out of its
// table (on a tie it goes up, not left). Only that one bit of each cell is kept.
void mark_lcs(const Ids& reference, const Ids& candidate, std::vector<bool>& marked) {
  const std::size_t columns = candidate.size();
  std::vector<bool> goes_left(reference.size() * columns);
  std::vector<std::size_t> row(columns + 1, 0);
  for (std::size_t i = 0; i < reference.size(); ++i) {
    std::size_t diagonal = 0;
    for (std::size_t j = 1; j <= columns; ++j) {
      const std::size_t above = row[j];
      goes_left[i * columns + j - 1] = row[j - 1] > above;
      row[j] = reference[i] == candidate[j - 1] ? diagonal + 1 : std::max(above, row[j - 1]);
      diagonal = above;
    }
  }
  for (std::size_t i = reference.size(), j = columns; i > 0 && j > 0;) {
    if (reference[i - 1] == candidate[j - 1]) {
      marked[--i] = true;
      --j;
    } else if (goes_left[(i - 1) * columns + j - 1]) {
      --j;
    } else {
      --i;
    }
  }
}

std::vector<Ids> sentences(std::string_view text, bool stem, Words& words) {
  std::vector<Ids> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) lines.push_back(words.ids(rouge_tokens(text.substr(0, end), stem)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

RougeScore score_summary(const std::vector<Ids>& prediction, const std::vector<Ids>& reference, std::size_t words) {
  std::vector<std::size_t> left_prediction(words, 0), left_reference(words, 0);
  std::size_t predicted = 0, actual = 0, hits = 0;
  for (const Ids& sentence : prediction) {
    predicted += sentence.size();
    for (const auto word : sentence) ++left_prediction[word];
  }
  for (const Ids& sentence : reference) {
    actual += sentence.size();
    for (const auto word : sentence) ++left_reference[word];
  }
  for (const Ids& sentence : reference) {
    std::vector<bool> marked(sentence.size(), false);
    for (const Ids& candidate : prediction) mark_lcs(sentence, candidate, marked);
    for (std::size_t i = 0; i < sentence.size(); ++i) {
      const auto word = sentence[i];
      if (!marked[i] || left_prediction[word] == 0 || left_reference[word] == 0) continue;
      ++hits;
      --left_prediction[word];
      --left_reference[word];
    }
  }
  return score_hits(hits, predicted, actual);
}

std::vector<std::string_view> split_on_space(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t space; (space = text.find(' ')) != text.npos; text.remove_prefix(space + 1))
    words.push_back(text.substr(0, space));
  words.push_back(text);
  return words;
}

}  // namespace

std::vector<std::string> rouge_tokens(std::string_view text, bool stem) {
  const std::string lowered = python_text::lower(text);
  const auto inside = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  std::vector<std::string> tokens;
  for (auto at = lowered.begin(); at != lowered.end();) {
    const auto begin = std::find_if(at, lowered.end(), inside);
    at = std::find_if_not(begin, lowered.end(), inside);
    if (begin == at) break;
    std::string token(begin, at);
    if (stem && token.size() > 3) token = porter_stem(token);
    if (!token.empty()) tokens.push_back(std::move(token));
  }
  return tokens;
}

RougeScores rouge(std::string_view prediction, std::span<const std::string> references, bool stem) {
  check(!references.empty(), "ROUGE needs a reference");
  Words words;
  const Ids ours = words.ids(rouge_tokens(prediction, stem));
  const std::vector<Ids> our_sentences = sentences(prediction, stem, words);
  RougeScores best;
  bool first = true;
  const auto keep = [&first](RougeScore& so_far, const RougeScore& score) {
    if (first || score.f1 > so_far.f1) so_far = score;
  };
  for (const std::string& reference : references) {
    const Ids theirs = words.ids(rouge_tokens(reference, stem));
    const std::vector<Ids> their_sentences = sentences(reference, stem, words);
    keep(best.rouge1, score_ngrams(ours, theirs, 1));
    keep(best.rouge2, score_ngrams(ours, theirs, 2));
    keep(best.rouge_l, score_hits(lcs_length(theirs, ours), ours.size(), theirs.size()));
    keep(best.rouge_lsum, score_summary(our_sentences, their_sentences, words.size()));
    first = false;
  }
  return best;
}

double fednlp_rouge_l(std::string_view prediction, std::span<const std::string> references) {
  check(!references.empty(), "ROUGE needs a reference");
  const auto ours = split_on_space(prediction);
  double precision = 0, recall = 0;
  for (const std::string& reference : references) {
    const auto theirs = split_on_space(reference);
    const auto common = static_cast<double>(lcs_length(theirs, ours));
    precision = std::max(precision, common / static_cast<double>(ours.size()));
    recall = std::max(recall, common / static_cast<double>(theirs.size()));
  }
  if (precision == 0 || recall == 0) return 0;
  constexpr double kBetaSquared = 1.2 * 1.2;
  return (1 + kBetaSquared) * precision * recall / (recall + kBetaSquared * precision);
}

double mean_of_batch_means(std::span<const double> values, std::size_t batch) {
  check(batch > 0, "a batch has at least one example");
  double sum = 0;
  std::size_t batches = 0;
  for (std::size_t begin = 0; begin < values.size(); begin += batch, ++batches) {
    const std::size_t end = std::min(begin + batch, values.size());
    double part = 0;
    for (std::size_t i = begin; i < end; ++i) part += values[i];
    sum += part / static_cast<double>(end - begin);
  }
  return batches > 0 ? sum / static_cast<double>(batches) : std::numeric_limits<double>::quiet_NaN();
}

void Rouge::add(std::string_view prediction, std::span<const std::string> references) {
  const RougeScores scores = rouge(prediction, references, stem_);
  const auto put = [this](std::string_view name, const RougeScore& score) {
    tally_.add(tally_.index(name), {score.f1, score.precision, score.recall});
  };
  put("rouge1", scores.rouge1);
  put("rouge2", scores.rouge2);
  put("rougeL", scores.rouge_l);
  put("rougeLsum", scores.rouge_lsum);
  const double fednlp = fednlp_rouge_l(prediction, references);
  tally_.add(tally_.index("fednlp_rougeL"), {fednlp, 0, 0});
  tally_.end_example();
}

Scores Rouge::finish(const Tally& tally) const {
  Scores scores;
  const auto count = static_cast<double>(tally.examples());
  constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
  for (const char* kind : {"rouge1", "rouge2", "rougeL", "rougeLsum", "fednlp_rougeL"}) {
    const std::string name = kind;
    const auto at = std::find(tally.names().begin(), tally.names().end(), name) - tally.names().begin();
    const bool known = static_cast<std::size_t>(at) < tally.names().size() && count > 0;
    const Tally::Triple sums = known ? tally.totals()[static_cast<std::size_t>(at)] : Tally::Triple{};
    scores[name] = known ? sums[0] / count : kUndefined;
    if (name == "fednlp_rougeL") continue;
    scores[name + "_precision"] = known ? sums[1] / count : kUndefined;
    scores[name + "_recall"] = known ? sums[2] / count : kUndefined;
  }
  scores["examples"] = count;
  return scores;
}

}  // namespace chorus::inline metrics
