#pragma once

#include <span>
#include <string>
#include <string_view>

#include "application/metrics/metric.h"

namespace chorus::inline metrics {

/// The official SQuAD normalization with Python semantics, Unicode included: lower case, no ASCII punctuation, no
/// articles (a, an, the), collapsed whitespace.
std::string normalize_answer(std::string_view text);

/// Which of the two official evaluation scripts. They differ where nothing is left after normalization (v1.1: F1 is 0;
/// v2.0: F1 is 1 if both are empty) and in unanswerable questions.
enum class SquadVersion { kV1, kV2 };

struct AnswerScore {
  double exact = 0;
  double f1 = 0;
};

/// Exact match and token F1 of one answer, each the maximum over the gold answers. v2.0 drops golds that normalize to
/// nothing; a question without golds is unanswerable, and correct exactly if the prediction normalizes to nothing (an
/// empty string means "no answer"). v1.1 gives such a question 0.
AnswerScore score_answer(std::string_view prediction, std::span<const std::string> golds, SquadVersion version);

/// Scores: exact_match and f1 (means over questions, 0 to 1; the official scripts print 100 times this), and with v2.0
/// also has_answer_{exact_match,f1,examples} and no_answer_{...} where there are such questions. FedNLP's score is
/// v2.0 with one gold per row.
///
///     metric.add("in Paris", {{"Paris", "Paris, France"}});
class SquadF1 : public TallyMetric {
 public:
  explicit SquadF1(SquadVersion version = SquadVersion::kV1, Keep keep = Keep::kTotals)
      : TallyMetric(keep), version_(version) {}

  void add(std::string_view prediction, std::span<const std::string> golds);
  /// A question that was not answered at all: scores 0, also when it is unanswerable (v1.1's rule).
  void add_missing(std::span<const std::string> golds);

  std::unique_ptr<Metric> fresh(Keep keep) const override { return std::make_unique<SquadF1>(version_, keep); }
  std::string signature() const override { return version_ == SquadVersion::kV1 ? "squad v1.1" : "squad v2.0"; }

 protected:
  Scores finish(const Tally& tally) const override;

 private:
  SquadVersion version_;
};

}  // namespace chorus::inline metrics
