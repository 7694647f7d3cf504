#include "application/metrics/classification.h"

#include <cmath>
#include <limits>

#include "application/metrics/class_report.h"
#include "core/base/error.h"

namespace chorus::inline metrics {
namespace {

// Gorodkin's multi-class form of the Matthews coefficient. Products of counts up to 4e9 are exact in a long double.
double matthews(const std::vector<ClassScore>& classes) {
  long double correct = 0, samples = 0, both = 0, actual_squares = 0, predicted_squares = 0;
  for (const ClassScore& one : classes) {
    correct += one.correct;
    samples += one.actual;
    both += static_cast<long double>(one.actual) * one.predicted;
    actual_squares += static_cast<long double>(one.actual) * one.actual;
    predicted_squares += static_cast<long double>(one.predicted) * one.predicted;
  }
  const long double covariance = correct * samples - both;
  const long double actual = samples * samples - actual_squares;
  const long double predicted = samples * samples - predicted_squares;
  if (actual == 0 || predicted == 0) return 0;
  return static_cast<double>(covariance / std::sqrt(actual * predicted));
}

}  // namespace

Classification::Classification(ClassificationOptions options, Keep keep)
    : TallyMetric(keep), options_(std::move(options)) {
  for (const std::string& label : options_.labels) tally_.index(label);
  check(tally_.names().size() == options_.labels.size(), "the label names are not distinct");
}

void Classification::count(std::uint32_t prediction, std::uint32_t reference) {
  if (prediction == reference) {
    tally_.add(reference, {1, 1, 1});
  } else {
    tally_.add(prediction, {0, 1, 0});
    tally_.add(reference, {0, 0, 1});
  }
  tally_.end_example();
}

void Classification::add(std::string_view prediction, std::string_view reference) {
  count(tally_.index(prediction), tally_.index(reference));
}

void Classification::add(std::span<const std::int64_t> predictions, std::span<const std::int64_t> references) {
  check(predictions.size() == references.size(), "as many predictions as references are needed");
  const auto known = [&](std::int64_t id) {
    check(id >= 0 && id < static_cast<std::int64_t>(options_.labels.size()), "a label id has no name");
    return static_cast<std::uint32_t>(id);
  };
  for (std::size_t i = 0; i < predictions.size(); ++i) count(known(predictions[i]), known(references[i]));
}

std::unique_ptr<Metric> Classification::fresh(Keep keep) const {
  return std::make_unique<Classification>(options_, keep);
}

std::string Classification::signature() const {
  return options_.positive ? "classification positive=" + *options_.positive : "classification";
}

Scores Classification::finish(const Tally& tally) const {
  Scores scores;
  const std::vector<ClassScore> classes = class_scores(tally);
  report_classes(classes, scores);
  double correct = 0;
  for (const ClassScore& one : classes) correct += one.correct;
  const bool empty = tally.examples() == 0;
  constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
  scores["accuracy"] = empty ? kUndefined : correct / static_cast<double>(tally.examples());
  scores["matthews"] = empty ? kUndefined : matthews(classes);
  scores["examples"] = static_cast<double>(tally.examples());
  if (options_.positive) {
    ClassScore positive;
    for (const ClassScore& one : classes)
      if (one.name == *options_.positive) positive = one;
    scores["precision"] = positive.precision();
    scores["recall"] = positive.recall();
    scores["f1"] = positive.f1();
  }
  return scores;
}

}  // namespace chorus::inline metrics
