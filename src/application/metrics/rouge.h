#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "application/metrics/metric.h"

namespace chorus::inline metrics {

struct RougeScore {
  double precision = 0;
  double recall = 0;
  double f1 = 0;
};

/// The scores of one prediction, equal to the `rouge-score` package (0.1.2).
struct RougeScores {
  RougeScore rouge1;
  RougeScore rouge2;
  RougeScore rouge_l;
  RougeScore rouge_lsum;  ///< sentences are lines; union of the longest common subsequences (Lin 2004, section 3.2)
};

/// Words for ROUGE: lower case, split at everything except a-z and 0-9. With `stem`, words of more than three letters
/// are stemmed (porter_stemmer.h).
std::vector<std::string> rouge_tokens(std::string_view text, bool stem);

/// ROUGE-1, -2, -L and -Lsum of a prediction. Of several references the one with the highest F counts, separately
/// for each kind (`RougeScorer.score_multi`). 0 when either side has no words. Needs at least one reference.
RougeScores rouge(std::string_view prediction, std::span<const std::string> references, bool stem);

/// FedNLP's ROUGE-L (from the COCO caption tools): words are split at single spaces, case and punctuation count, F has
/// beta = 1.2: (1 + b^2) P R / (R + b^2 P). P and R are each the maximum over the references. "the cat sat" against
/// "the cat sat on the mat" is 0.62886598.
double fednlp_rouge_l(std::string_view prediction, std::span<const std::string> references);

/// FedNLP's average: the mean of each `batch` consecutive values, then the mean of those (a short last batch weighs as
/// much as a full one). NaN over nothing.
double mean_of_batch_means(std::span<const double> values, std::size_t batch);

/// Means over all predictions: {rouge1,rouge2,rougeL,rougeLsum} (F) and each with _precision and _recall, and
/// fednlp_rougeL.
///
///     metric.add(generated, {{headline}});
class Rouge : public TallyMetric {
 public:
  explicit Rouge(bool stem = false, Keep keep = Keep::kTotals) : TallyMetric(keep), stem_(stem) {}

  void add(std::string_view prediction, std::span<const std::string> references);

  std::unique_ptr<Metric> fresh(Keep keep) const override { return std::make_unique<Rouge>(stem_, keep); }
  std::string signature() const override { return stem_ ? "rouge stemmed" : "rouge"; }

 protected:
  Scores finish(const Tally& tally) const override;

 private:
  bool stem_;
};

}  // namespace chorus::inline metrics
