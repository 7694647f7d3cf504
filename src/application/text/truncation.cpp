#include "application/text/truncation.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"

namespace chorus::inline text {

namespace {

std::vector<Window> windows(std::size_t length, std::size_t limit, const EncodeOptions& options) {
  if (limit >= length) return {{0, length}};
  if (limit == 0) return {{0, 0}};
  if (options.stride >= limit) {
    throw ConfigError(
        fmt::format("a stride of {} is too large for windows of {} tokens of text; "
                    "use a smaller stride or a larger maximum length",
                    options.stride, limit));
  }
  std::vector<Window> out;
  for (std::size_t begin = 0;; begin += limit - options.stride) {
    out.push_back({begin, std::min(begin + limit, length)});
    if (out.back().end == length || !options.overflow) return out;
  }
}

/// The lengths of a pair when the longer text is truncated first.
std::pair<std::size_t, std::size_t> longest_first(std::size_t first, std::size_t second, std::size_t limit) {
  const bool swap = first > second;
  std::size_t shorter = std::min(first, second);
  std::size_t longer = shorter > limit ? shorter : std::max(shorter, limit - shorter);
  if (shorter + longer > limit) {
    shorter = limit / 2;
    longer = shorter + limit % 2;
  }
  return swap ? std::pair(longer, shorter) : std::pair(shorter, longer);
}

}  // namespace

Windows cut_to_length(std::size_t first, std::size_t second, bool pair, std::size_t special,
                      const EncodeOptions& options) {
  const std::size_t total = first + second + special;
  if (options.max_length == 0 || total <= options.max_length) {
    return {{{0, first}}, {{0, second}}};
  }
  if (options.max_length < special) {
    throw ConfigError(fmt::format("a maximum length of {} has no room for the {} special tokens of this tokenizer",
                                  options.max_length, special));
  }
  const std::size_t limit = options.max_length - special;
  const std::size_t excess = total - options.max_length;
  switch (options.truncation) {
    case Truncation::kLongestFirst: {
      if (!pair) return {windows(first, limit, options), {{0, 0}}};
      const auto [a, b] = longest_first(first, second, limit);
      return {windows(first, a, options), windows(second, b, options)};
    }
    case Truncation::kOnlyFirst:
      if (first <= excess) break;
      return {windows(first, first - excess, options), {{0, second}}};
    case Truncation::kOnlySecond:
      if (!pair) throw ConfigError("truncation only_second needs a pair, but there is only one text");
      if (second <= excess) break;
      return {{{0, first}}, windows(second, second - excess, options)};
  }
  throw ConfigError(
      fmt::format("the {} text has {} tokens, too few to remove {} for a maximum length of {}; "
                  "use a larger maximum length or truncate the longest text first",
                  options.truncation == Truncation::kOnlyFirst ? "first" : "second",
                  options.truncation == Truncation::kOnlyFirst ? first : second, excess, options.max_length));
}

}  // namespace chorus::inline text
