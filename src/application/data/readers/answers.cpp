#include "application/data/readers/answers.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/console/terminal.h"

namespace chorus::inline readers {

void AnswerAligner::set_context(std::string_view context) {
  context_ = context;
  bytes_ = utf8::byte_positions(context);
}

bool AnswerAligner::align(GoldAnswer& answer, ReadReport& report, const std::string& where) const {
  const auto points = static_cast<std::int64_t>(bytes_.size()) - 1;
  const bool inside = answer.begin >= 0 && answer.begin <= points && !answer.text.empty();
  if (inside && context_.substr(bytes_[static_cast<std::size_t>(answer.begin)]).starts_with(answer.text)) {
    answer.end = answer.begin + static_cast<std::int64_t>(utf8::count(answer.text));
    return true;
  }
  ++report.misaligned;
  if (policy_ == Misaligned::kError) {
    throw DataError(fmt::format(
        "{}: the answer \"{}\" is not at character {} of its context; set data.misaligned to skip or realign", where,
        shortened(answer.text, 60), answer.begin));
  }
  std::string_view text = answer.text;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  text = first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
  std::size_t best = std::string_view::npos;
  if (policy_ == Misaligned::kRealign && !text.empty()) {
    const auto wanted_point = static_cast<std::size_t>(std::clamp<std::int64_t>(answer.begin, 0, points));
    const auto distance = [&, wanted = static_cast<std::size_t>(bytes_[wanted_point])](std::size_t at) {
      return at > wanted ? at - wanted : wanted - at;
    };
    for (std::size_t at = context_.find(text); at != std::string_view::npos; at = context_.find(text, at + 1)) {
      if (best == std::string_view::npos || distance(at) < distance(best)) best = at;
    }
  }
  if (best == std::string_view::npos) {
    ++report.unaligned;
    return false;
  }
  ++report.realigned;
  answer.begin = std::lower_bound(bytes_.begin(), bytes_.end(), best) - bytes_.begin();
  answer.text = std::string(text);
  answer.end = answer.begin + static_cast<std::int64_t>(utf8::count(answer.text));
  return true;
}

}  // namespace chorus::inline readers
