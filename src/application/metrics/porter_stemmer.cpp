#include "application/metrics/porter_stemmer.h"

#include <array>
#include <span>
#include <utility>

namespace chorus::inline metrics {
namespace {

bool is_vowel_letter(char c) { return c == 'a' || c == 'e' || c == 'i' || c == 'o' || c == 'u'; }

// A y is a consonant at the beginning and after a vowel, and a vowel after a consonant.
bool is_consonant(std::string_view word, std::size_t i) {
  bool negate = false;
  while (i > 0 && word[i] == 'y') {
    negate = !negate;
    --i;
  }
  return !is_vowel_letter(word[i]) != negate;
}

// m in [C](VC){m}[V]: the number of vowel-consonant transitions.
int measure(std::string_view stem) {
  int count = 0;
  bool before = true;
  for (std::size_t i = 0; i < stem.size(); ++i) {
    const bool consonant = stem[i] == 'y' ? i == 0 || !before : !is_vowel_letter(stem[i]);
    if (i > 0 && consonant && !before) ++count;
    before = consonant;
  }
  return count;
}

bool contains_vowel(std::string_view stem) {
  bool before = true;
  for (std::size_t i = 0; i < stem.size(); ++i) {
    before = stem[i] == 'y' ? i == 0 || !before : !is_vowel_letter(stem[i]);
    if (!before) return true;
  }
  return false;
}

bool ends_double_consonant(std::string_view word) {
  const std::size_t n = word.size();
  return n >= 2 && word[n - 1] == word[n - 2] && is_consonant(word, n - 1);
}

bool ends_cvc(std::string_view word) {
  const std::size_t n = word.size();
  if (n == 2) return !is_consonant(word, 0) && is_consonant(word, 1);
  if (n < 3) return false;
  const char last = word[n - 1];
  return is_consonant(word, n - 3) && !is_consonant(word, n - 2) && is_consonant(word, n - 1) && last != 'w' &&
         last != 'x' && last != 'y';
}

struct Rule {
  std::string_view suffix;
  std::string_view replacement;
};

// The first rule with a matching suffix decides; it applies if the rest has a measure above `least`.
std::string apply(const std::string& word, std::span<const Rule> rules, int least) {
  for (const Rule& rule : rules) {
    if (!word.ends_with(rule.suffix)) continue;
    const std::string_view stem = std::string_view(word).substr(0, word.size() - rule.suffix.size());
    if (measure(stem) <= least) return word;
    return std::string(stem).append(rule.replacement);
  }
  return word;
}

std::string without(const std::string& word, std::size_t letters) { return word.substr(0, word.size() - letters); }

std::string step1a(const std::string& word) {
  if (word.ends_with("ies")) return without(word, 3) + (word.size() == 4 ? "ie" : "i");
  if (word.ends_with("sses")) return without(word, 2);
  if (word.ends_with("ss")) return word;
  if (word.ends_with("s")) return without(word, 1);
  return word;
}

std::string step1b(const std::string& word) {
  if (word.ends_with("ied")) return without(word, 3) + (word.size() == 4 ? "ie" : "i");
  if (word.ends_with("eed")) return measure(without(word, 3)) > 0 ? without(word, 1) : word;
  std::string stem;
  if (word.ends_with("ed")) {
    stem = without(word, 2);
  } else if (word.ends_with("ing")) {
    stem = without(word, 3);
  }
  if (!contains_vowel(stem)) return word;
  if (stem.ends_with("at") || stem.ends_with("bl") || stem.ends_with("iz")) return stem + "e";
  if (ends_double_consonant(stem)) {
    const char last = stem.back();
    return last == 'l' || last == 's' || last == 'z' ? stem : without(stem, 1);
  }
  return measure(stem) == 1 && ends_cvc(stem) ? stem + "e" : stem;
}

std::string step1c(const std::string& word) {
  const bool acts = word.ends_with("y") && word.size() > 2 && is_consonant(word, word.size() - 2);
  return acts ? without(word, 1) + "i" : word;
}

std::string step2(const std::string& word) {
  if (word.ends_with("alli") && measure(without(word, 4)) > 0) return step2(without(word, 2));
  static constexpr std::array<Rule, 21> kRules{{
      {"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"}, {"anci", "ance"}, {"izer", "ize"},
      {"bli", "ble"},     {"alli", "al"},     {"entli", "ent"}, {"eli", "e"},     {"ousli", "ous"},
      {"ization", "ize"}, {"ation", "ate"},   {"ator", "ate"},  {"alism", "al"},  {"iveness", "ive"},
      {"fulness", "ful"}, {"ousness", "ous"}, {"aliti", "al"},  {"iviti", "ive"}, {"biliti", "ble"},
      {"fulli", "ful"},
  }};
  // The l belongs to the stem here, so that geology and theology go the way of archaeology.
  if (word.ends_with("logi")) return measure(without(word, 3)) > 0 ? without(word, 1) : word;
  return apply(word, kRules, 0);
}

std::string step3(const std::string& word) {
  static constexpr std::array<Rule, 7> kRules{
      {{"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {"iciti", "ic"}, {"ical", "ic"}, {"ful", ""}, {"ness", ""}}};
  return apply(word, kRules, 0);
}

std::string step4(const std::string& word) {
  static constexpr std::array<Rule, 11> kBeforeIon{{{"al", ""},
                                                    {"ance", ""},
                                                    {"ence", ""},
                                                    {"er", ""},
                                                    {"ic", ""},
                                                    {"able", ""},
                                                    {"ible", ""},
                                                    {"ant", ""},
                                                    {"ement", ""},
                                                    {"ment", ""},
                                                    {"ent", ""}}};
  static constexpr std::array<Rule, 7> kAfterIon{
      {{"ou", ""}, {"ism", ""}, {"ate", ""}, {"iti", ""}, {"ous", ""}, {"ive", ""}, {"ize", ""}}};
  if (word.ends_with("ion")) {
    const std::string stem = without(word, 3);
    return measure(stem) > 1 && (stem.back() == 's' || stem.back() == 't') ? stem : word;
  }
  // No word ends in a suffix of both lists, so the order between them does not matter.
  const std::string stem = apply(word, kBeforeIon, 1);
  return stem.size() != word.size() ? stem : apply(word, kAfterIon, 1);
}

std::string step5(std::string word) {
  if (word.ends_with("e")) {
    const std::string stem = without(word, 1);
    const int m = measure(stem);
    if (m > 1 || (m == 1 && !ends_cvc(stem))) word = stem;
  }
  if (word.ends_with("ll") && measure(without(word, 1)) > 1) word.pop_back();
  return word;
}

}  // namespace

std::string porter_stem(std::string_view word) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kIrregular{{
      {"sky", "sky"},
      {"skies", "sky"},
      {"dying", "die"},
      {"lying", "lie"},
      {"tying", "tie"},
      {"news", "news"},
      {"innings", "inning"},
      {"inning", "inning"},
      {"outings", "outing"},
      {"outing", "outing"},
      {"cannings", "canning"},
      {"canning", "canning"},
      {"proceed", "proceed"},
      {"exceed", "exceed"},
      {"succeed", "succeed"},
      {"howe", "howe"},
  }};
  for (const auto& [form, stem] : kIrregular)
    if (word == form) return std::string(stem);
  if (word.size() <= 2) return std::string(word);
  return step5(step4(step3(step2(step1c(step1b(step1a(std::string(word))))))));
}

}  // namespace chorus::inline metrics
