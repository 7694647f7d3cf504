#pragma once

#include <string>
#include <vector>

#include "application/metrics/metric.h"

namespace chorus::inline metrics {

/// Precision, recall and F1 of one class, from its counts. 0 where a denominator is 0 (scikit-learn's and seqeval's
/// zero_division=0).
struct ClassScore {
  std::string name;
  double correct = 0;    ///< predicted and actual
  double predicted = 0;  ///< predicted
  double actual = 0;     ///< occurrences in the references (support)
  double precision() const { return predicted > 0 ? correct / predicted : 0; }
  double recall() const { return actual > 0 ? correct / actual : 0; }
  double f1() const { return predicted + actual > 0 ? 2 * correct / (predicted + actual) : 0; }
};

/// The classes of a tally of (correct, predicted, actual), sorted by name in code point order, as scikit-learn and
/// seqeval do. Classes that occur on neither side are omitted.
std::vector<ClassScore> class_scores(const Tally& tally);

/// Adds precision/X, recall/X, f1/X and support/X of each class, and the averages micro_ (from summed counts), macro_
/// (unweighted mean over classes) and weighted_ (mean weighted by support), each with precision, recall and f1. Without
/// any class the averages are 0 (zero_division=0).
void report_classes(const std::vector<ClassScore>& classes, Scores& scores);

}  // namespace chorus::inline metrics
