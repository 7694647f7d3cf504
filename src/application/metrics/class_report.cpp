#include "application/metrics/class_report.h"

#include <algorithm>

namespace chorus::inline metrics {
namespace {

void put(Scores& scores, const std::string& prefix, const std::string& suffix, const ClassScore& score) {
  scores[prefix + "precision" + suffix] = score.precision();
  scores[prefix + "recall" + suffix] = score.recall();
  scores[prefix + "f1" + suffix] = score.f1();
}

}  // namespace

std::vector<ClassScore> class_scores(const Tally& tally) {
  std::vector<ClassScore> classes;
  for (std::size_t i = 0; i < tally.names().size(); ++i) {
    const auto [correct, predicted, actual] = tally.totals()[i];
    if (predicted > 0 || actual > 0) classes.push_back({tally.names()[i], correct, predicted, actual});
  }
  std::sort(classes.begin(), classes.end(), [](const ClassScore& a, const ClassScore& b) { return a.name < b.name; });
  return classes;
}

void report_classes(const std::vector<ClassScore>& classes, Scores& scores) {
  ClassScore all;
  double precision = 0, recall = 0, f1 = 0;
  double weighted_precision = 0, weighted_recall = 0, weighted_f1 = 0;
  for (const ClassScore& one : classes) {
    put(scores, "", "/" + one.name, one);
    scores["support/" + one.name] = one.actual;
    all.correct += one.correct;
    all.predicted += one.predicted;
    all.actual += one.actual;
    precision += one.precision();
    recall += one.recall();
    f1 += one.f1();
    weighted_precision += one.actual * one.precision();
    weighted_recall += one.actual * one.recall();
    weighted_f1 += one.actual * one.f1();
  }
  put(scores, "micro_", "", all);
  const double count = classes.empty() ? 1 : static_cast<double>(classes.size());
  scores["macro_precision"] = precision / count;
  scores["macro_recall"] = recall / count;
  scores["macro_f1"] = f1 / count;
  const double support = all.actual > 0 ? all.actual : 1;
  scores["weighted_precision"] = weighted_precision / support;
  scores["weighted_recall"] = weighted_recall / support;
  scores["weighted_f1"] = weighted_f1 / support;
}

}  // namespace chorus::inline metrics
