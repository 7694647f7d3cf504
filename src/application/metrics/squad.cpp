#include "application/metrics/squad.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <vector>

#include "application/metrics/python_text.h"
#include "core/base/utf8.h"

namespace chorus::inline metrics {
namespace {

bool is_punctuation(char32_t c) {
  return (c >= 0x21 && c <= 0x2F) || (c >= 0x3A && c <= 0x40) || (c >= 0x5B && c <= 0x60) || (c >= 0x7B && c <= 0x7E);
}

bool is_article(std::string_view word) { return word == "a" || word == "an" || word == "the"; }

std::vector<std::string> answer_tokens(std::string_view text) {
  const std::string lowered = python_text::lower(text);
  std::string kept;
  std::string word;
  const auto end_word = [&] {
    kept += is_article(word) ? std::string_view(" ") : std::string_view(word);
    word.clear();
  };
  for (std::size_t at = 0; at < lowered.size();) {
    const char32_t code = utf8::next(lowered, at);
    if (is_punctuation(code)) continue;
    if (python_text::is_word(code)) {
      utf8::append(word, code);
    } else {
      end_word();
      utf8::append(kept, code);
    }
  }
  end_word();
  return python_text::split(kept);
}

double token_f1(const std::vector<std::string>& prediction, const std::vector<std::string>& gold,
                SquadVersion version) {
  if (version == SquadVersion::kV2 && (prediction.empty() || gold.empty()))
    return prediction.empty() && gold.empty() ? 1 : 0;
  std::unordered_map<std::string_view, long> counts;
  for (const std::string& token : gold) ++counts[token];
  double same = 0;
  for (const std::string& token : prediction)
    if (const auto found = counts.find(token); found != counts.end() && found->second-- > 0) ++same;
  if (same == 0) return 0;
  const double precision = same / static_cast<double>(prediction.size());
  const double recall = same / static_cast<double>(gold.size());
  return 2 * precision * recall / (precision + recall);
}

// As the official v2.0 script: a question with any gold answer is answerable, whatever its text.
std::string_view kind_of(std::span<const std::string> golds, SquadVersion version) {
  if (version == SquadVersion::kV1) return "all";
  return golds.empty() ? "no_answer" : "has_answer";
}

}  // namespace

std::string normalize_answer(std::string_view text) {
  std::string joined;
  for (const std::string& token : answer_tokens(text)) {
    if (!joined.empty()) joined.push_back(' ');
    joined += token;
  }
  return joined;
}

AnswerScore score_answer(std::string_view prediction, std::span<const std::string> golds, SquadVersion version) {
  const std::vector<std::string> ours = answer_tokens(prediction);
  AnswerScore best;
  bool any = false;
  for (const std::string& gold : golds) {
    const std::vector<std::string> tokens = answer_tokens(gold);
    if (version == SquadVersion::kV2 && tokens.empty()) continue;
    any = true;
    best.exact = std::max(best.exact, tokens == ours ? 1.0 : 0.0);
    best.f1 = std::max(best.f1, token_f1(ours, tokens, version));
  }
  if (!any && version == SquadVersion::kV2 && ours.empty()) best = {1, 1};
  return best;
}

void SquadF1::add(std::string_view prediction, std::span<const std::string> golds) {
  const AnswerScore score = score_answer(prediction, golds, version_);
  tally_.add(tally_.index(kind_of(golds, version_)), {score.exact, score.f1, 1});
  tally_.end_example();
}

void SquadF1::add_missing(std::span<const std::string> golds) {
  tally_.add(tally_.index(kind_of(golds, version_)), {0, 0, 1});
  tally_.end_example();
}

Scores SquadF1::finish(const Tally& tally) const {
  Scores scores;
  double exact = 0, f1 = 0;
  for (std::size_t i = 0; i < tally.names().size(); ++i) {
    const auto [sum_exact, sum_f1, count] = tally.totals()[i];
    exact += sum_exact;
    f1 += sum_f1;
    if (version_ == SquadVersion::kV1 || count == 0) continue;
    const std::string& kind = tally.names()[i];
    scores[kind + "_exact_match"] = sum_exact / count;
    scores[kind + "_f1"] = sum_f1 / count;
    scores[kind + "_examples"] = count;
  }
  const auto count = static_cast<double>(tally.examples());
  constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
  scores["exact_match"] = count > 0 ? exact / count : kUndefined;
  scores["f1"] = count > 0 ? f1 / count : kUndefined;
  scores["examples"] = count;
  return scores;
}

}  // namespace chorus::inline metrics
