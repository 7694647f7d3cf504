#include "core/base/nearest.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace chorus::inline base {
namespace {

// Words come from files: a long word is not a misspelt name, and the distance is quadratic in its length.
constexpr std::size_t kLongestWord = 128;

std::string folded(std::string_view word) {
  std::string result(word);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-') c = '_';
  }
  return result;
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::string from = folded(a);
  const std::string to = folded(b);
  std::vector<std::size_t> before(to.size() + 1), last(to.size() + 1), row(to.size() + 1);
  for (std::size_t j = 0; j <= to.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[to.size()];
}

std::string nearest(std::string_view word, std::span<const std::string> names) {
  if (word.empty() || word.size() > kLongestWord) return "";
  const std::string text = folded(word);
  // A synonym is nearer than a name that looks similar.
  if (text == "gpu" && std::find(names.begin(), names.end(), "cuda") != names.end()) return "cuda";
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, (word.size() + 1) / 3) + 1;
  for (const std::string& name : names) {
    if (name.size() > kLongestWord) continue;
    const std::size_t distance = edit_distance(text, name);
    if (distance < best_distance) {
      best_distance = distance;
      best = name;
    }
  }
  if (!best.empty() || text.size() < 3) return best;
  for (const std::string& name : names) {
    const std::string other = folded(name);
    const bool inside = other.find(text) != std::string::npos;
    const bool around = other.size() >= 3 && text.find(other) != std::string::npos;
    if ((inside || around) && (best.empty() || name.size() < best.size())) best = name;
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> names) {
  const std::string name = nearest(word, names);
  return name.empty() ? "" : "; did you mean '" + name + "'?";
}

}  // namespace chorus::inline base
