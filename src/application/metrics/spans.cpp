#include "application/metrics/spans.h"

#include <fmt/format.h>

#include <limits>

#include "application/metrics/class_report.h"
#include "core/base/error.h"
#include "core/base/utf8.h"

namespace chorus::inline metrics {
namespace {

// Tag counts share the tally with the types; no type has this name, because types come from non-empty tags.
constexpr std::string_view kTags = "";

struct Tag {
  char32_t prefix = 'O';
  std::string_view type = "_";
};

Tag split_tag(std::string_view text, SpanScheme scheme) {
  if (text.empty()) throw DataError("a tag is empty; write O for a word outside every entity");
  Tag tag;
  std::size_t at = 0;
  tag.prefix = utf8::next(text, at);
  tag.type = text.substr(at);
  if (scheme == SpanScheme::kLenient) {
    // Python: tag[1:].split('-', maxsplit=1)[-1] or '_'
    if (const auto dash = tag.type.find('-'); dash != tag.type.npos) tag.type.remove_prefix(dash + 1);
  } else {
    // Python: tag[1:].strip('-') or '_'
    while (tag.type.starts_with('-')) tag.type.remove_prefix(1);
    while (tag.type.ends_with('-')) tag.type.remove_suffix(1);
    if (tag.prefix != 'B' && tag.prefix != 'I' && tag.prefix != 'O')
      throw DataError(fmt::format("the tag '{}' is not IOB2, whose tags begin with B, I or O", text));
  }
  if (tag.type.empty()) tag.type = "_";
  return tag;
}

bool ends(const Tag& before, const Tag& now) {
  const char32_t p = before.prefix, t = now.prefix;
  if (p == 'E' || p == 'S') return true;
  if ((p == 'B' || p == 'I') && (t == 'B' || t == 'S' || t == 'O')) return true;
  return p != 'O' && p != '.' && before.type != now.type;
}

bool starts(const Tag& before, const Tag& now) {
  const char32_t p = before.prefix, t = now.prefix;
  if (t == 'B' || t == 'S') return true;
  if ((p == 'E' || p == 'S' || p == 'O') && (t == 'E' || t == 'I')) return true;
  return t != 'O' && t != '.' && before.type != now.type;
}

std::vector<Span> lenient_spans(std::span<const std::string> tags) {
  std::vector<Span> spans;
  Tag before;
  std::size_t first = 0;
  for (std::size_t i = 0; i <= tags.size(); ++i) {
    const Tag now = i < tags.size() ? split_tag(tags[i], SpanScheme::kLenient) : Tag{};
    if (ends(before, now)) spans.push_back({std::string(before.type), first, i - 1});
    if (starts(before, now)) first = i;
    before = now;
  }
  return spans;
}

std::vector<Span> iob2_spans(std::span<const std::string> tags) {
  std::vector<Span> spans;
  bool inside = false;
  for (std::size_t i = 0; i < tags.size(); ++i) {
    const Tag now = split_tag(tags[i], SpanScheme::kIob2);
    inside = inside && now.prefix == 'I' && now.type == spans.back().type;
    if (inside) {
      spans.back().last = i;
    } else if (now.prefix == 'B') {
      spans.push_back({std::string(now.type), i, i});
      inside = true;
    }
  }
  return spans;
}

}  // namespace

std::vector<Span> spans_of(std::span<const std::string> tags, SpanScheme scheme) {
  return scheme == SpanScheme::kLenient ? lenient_spans(tags) : iob2_spans(tags);
}

void check_tag(std::string_view tag, SpanScheme scheme) { split_tag(tag, scheme); }

SpanF1::SpanF1(SpanScheme scheme, Keep keep) : TallyMetric(keep), scheme_(scheme) { tally_.index(kTags); }

void SpanF1::add(std::span<const std::string> predicted, std::span<const std::string> reference) {
  if (predicted.size() != reference.size())
    throw DataError(fmt::format("a sentence has {} predicted and {} true tags", predicted.size(), reference.size()));
  const std::vector<Span> ours = spans_of(predicted, scheme_);
  const std::vector<Span> theirs = spans_of(reference, scheme_);

  double equal = 0;
  for (std::size_t i = 0; i < predicted.size(); ++i) equal += predicted[i] == reference[i] ? 1 : 0;
  tally_.add(tally_.index(kTags), {equal, static_cast<double>(predicted.size()), 0});

  // Both lists are in order of their last word, and no two entities of one list share it.
  auto other = theirs.begin();
  for (const Span& span : ours) {
    while (other != theirs.end() && other->last < span.last) ++other;
    const bool correct = other != theirs.end() && *other == span;
    tally_.add(tally_.index(span.type), {correct ? 1.0 : 0.0, 1, 0});
  }
  for (const Span& span : theirs) tally_.add(tally_.index(span.type), {0, 0, 1});
  tally_.end_example();
}

std::string SpanF1::signature() const { return scheme_ == SpanScheme::kLenient ? "spans lenient" : "spans iob2"; }

Scores SpanF1::finish(const Tally& tally) const {
  Scores scores;
  std::vector<ClassScore> classes = class_scores(tally);
  double equal = 0, tags = 0;
  std::erase_if(classes, [&](const ClassScore& one) {
    if (one.name != kTags) return false;
    equal = one.correct;
    tags = one.predicted;
    return true;
  });
  report_classes(classes, scores);
  scores["precision"] = scores["micro_precision"];
  scores["recall"] = scores["micro_recall"];
  scores["f1"] = scores["micro_f1"];
  scores["accuracy"] = tags > 0 ? equal / tags : std::numeric_limits<double>::quiet_NaN();
  scores["examples"] = static_cast<double>(tally.examples());
  return scores;
}

}  // namespace chorus::inline metrics
