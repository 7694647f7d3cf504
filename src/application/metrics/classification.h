#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "application/metrics/metric.h"

namespace chorus::inline metrics {

struct ClassificationOptions {
  std::vector<std::string> labels;      ///< names of label ids 0, 1, ...; only for the `add` that takes ids
  std::optional<std::string> positive;  ///< the positive class of the binary precision, recall and F1
};

/// Single-label classification, equal to scikit-learn's accuracy_score, precision_recall_fscore_support(average=micro,
/// macro, weighted, binary; zero_division=0) and matthews_corrcoef, over the labels that occur on either side.
///
/// Scores: accuracy, matthews, {micro,macro,weighted}_{precision,recall,f1}, {precision,recall,f1,support}/LABEL, and
/// precision, recall, f1 of the positive class when one is named (0 when it never occurs). Without any example accuracy
/// and matthews are NaN. Matthews is 0 when either side has one label only, as scikit-learn defines it.
///
///     metric.add("sci.space", "sci.med");
class Classification : public TallyMetric {
 public:
  explicit Classification(ClassificationOptions options = {}, Keep keep = Keep::kTotals);

  void add(std::string_view prediction, std::string_view reference);
  /// By position in `labels`, a batch at once; both of one length.
  void add(std::span<const std::int64_t> predictions, std::span<const std::int64_t> references);

  std::unique_ptr<Metric> fresh(Keep keep) const override;
  std::string signature() const override;

 protected:
  Scores finish(const Tally& tally) const override;

 private:
  void count(std::uint32_t prediction, std::uint32_t reference);

  ClassificationOptions options_;
};

}  // namespace chorus::inline metrics
