#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "application/metrics/metric.h"

namespace chorus::inline metrics {

/// An entity: words first .. last (inclusive) of one sentence.
struct Span {
  std::string type;
  std::size_t first = 0;
  std::size_t last = 0;
  bool operator==(const Span&) const = default;
};

/// How tags define entities.
enum class SpanScheme {
  kLenient,  ///< seqeval's default, which is conlleval's: B, I, E and S tags in any mixture; an I- after O or after
             ///< another type begins an entity; a tag without type has type "_"
  kIob2  ///< seqeval's mode='strict', scheme=IOB2: an entity is a B- and the directly following I- of the same type;
         ///< an I- without its B- is ignored; prefixes other than B, I and O are an error
};

/// The entities of one sentence, in order. DataError for an empty tag, and for a prefix that the strict scheme forbids.
///
///     spans_of({{"B-PER", "I-PER", "O"}}, SpanScheme::kLenient);  // {{"PER", 0, 1}}
std::vector<Span> spans_of(std::span<const std::string> tags, SpanScheme scheme);

/// DataError when `tag` is invalid in that scheme.
void check_tag(std::string_view tag, SpanScheme scheme);

/// Entity-level scores, equal to seqeval's: an entity is correct when its type and both ends are.
///
/// Scores: {micro,macro,weighted}_{precision,recall,f1}; precision, recall and f1 (the micro ones, seqeval's default);
/// {precision,recall,f1,support}/TYPE; accuracy (equal tags); examples (sentences). Precision, recall and F1 are 0 if
/// nothing was predicted or there is no entity (zero_division=0); accuracy over no tags is NaN.
///
///     metric.add(predicted_tags, true_tags);
class SpanF1 : public TallyMetric {
 public:
  explicit SpanF1(SpanScheme scheme = SpanScheme::kLenient, Keep keep = Keep::kTotals);

  /// One sentence. DataError when the lengths differ.
  void add(std::span<const std::string> predicted, std::span<const std::string> reference);

  std::unique_ptr<Metric> fresh(Keep keep) const override { return std::make_unique<SpanF1>(scheme_, keep); }
  std::string signature() const override;

 protected:
  Scores finish(const Tally& tally) const override;

 private:
  SpanScheme scheme_;
};

}  // namespace chorus::inline metrics
