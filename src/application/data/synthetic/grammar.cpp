#include "application/data/synthetic/grammar.h"

#include <array>

namespace chorus::inline synthetic {
namespace {

bool wants_an(std::string_view word) {
  if (word.empty()) return false;
  for (const std::string_view silent : {"hour", "honest", "honour", "heir"}) {
    if (word.starts_with(silent)) return true;
  }
  for (const std::string_view spoken_with_y : {"uni", "Uni", "use", "usual", "euro", "one"}) {
    if (word.starts_with(spoken_with_y)) return false;
  }
  return std::string_view("aeiouAEIOU").find(word.front()) != std::string_view::npos;
}

bool ends_with_article(std::string_view text) {
  if (text.size() < 2 || !text.ends_with(' ')) return false;
  text.remove_suffix(1);
  if (text.back() != 'a' && text.back() != 'A') return false;
  return text.size() == 1 || text[text.size() - 2] == ' ';
}

}  // namespace

void append_word(std::string& out, std::string_view word) {
  if (ends_with_article(out) && wants_an(word)) out.insert(out.size() - 1, 1, 'n');
  out.append(word);
}

void capitalise(std::string& text, std::size_t from) {
  if (from < text.size() && text[from] >= 'a' && text[from] <= 'z') text[from] = static_cast<char>(text[from] - 32);
}

void lower_case(std::string& text, std::size_t from) {
  for (std::size_t i = from; i < text.size(); ++i) {
    if (text[i] >= 'A' && text[i] <= 'Z') text[i] = static_cast<char>(text[i] + 32);
  }
}

std::string number_words(std::uint64_t number) {
  static constexpr std::array<const char*, 21> kNumbers{
      "no",       "one",     "two",     "three",     "four",     "five",     "six",
      "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",   "thirteen",
      "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"};
  return number < kNumbers.size() ? kNumbers[number] : std::to_string(number);
}

}  // namespace chorus::inline synthetic
