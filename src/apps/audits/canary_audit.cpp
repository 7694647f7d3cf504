#include "apps/audits/canary_audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "algorithm/audit/exposure.h"
#include "apps/experiment/canary_exposure.h"
#include "core/base/error.h"

namespace chorus::inline audits {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

void check_shadow(const AuditedRun& run, const AuditedRun& shadow) {
  const auto same = [&](std::size_t i) {
    const auto& mine = run.experiment().canaries()[i].examples.front();
    const auto& other = shadow.experiment().canaries()[i].examples.front();
    return run.experiment().data().text(mine) == shadow.experiment().data().text(other);
  };
  const std::size_t count = run.experiment().canaries().size();
  bool fits = shadow.experiment().canaries().size() == count;
  for (std::size_t i = 0; fits && i < count; ++i) fits = same(i);
  if (!fits) {
    throw ConfigError(fmt::format(
        "--shadow {}: its canaries are others; run the same configuration with another audit.seed, and the same seed",
        shadow.name()));
  }
}

// A bound can be compared with the accounted epsilon where planting a canary adds exactly one protected record.
std::string difference(const AuditedRun& run) {
  const CanariesConfig& canaries = *run.config().audit;
  const bool examples = run.config().trainer.privacy.has_value();
  const bool users = run.config().aggregation.traits().noisy_sum;
  if (examples && !users) {
    return canaries.repeats == 1 ? "" : "a canary is planted several times, and epsilon protects single examples";
  }
  return users && canaries.alone
             ? ""
             : "a canary changes what a client has, and epsilon is about a client more or less (use audit.alone)";
}

}  // namespace

CanaryReport audit_canaries(const AuditedRun& run, std::span<const std::unique_ptr<AuditedRun>> shadows,
                            double confidence) {
  const std::vector<Canary>& canaries = run.experiment().canaries();
  if (canaries.empty()) {
    throw ConfigError(fmt::format("{}: no canaries were planted; run it with audit: {{count: 64}}", run.name()));
  }
  CanaryReport report;
  report.confidence = confidence;
  const std::vector<std::uint32_t> texts = canary_examples(run.experiment());
  const std::vector<double> moved = loss_changes(run.experiment(), run.start(), run.model(), texts);
  const std::vector<double> references =
      loss_changes(run.experiment(), run.start(), run.model(), run.experiment().canary_references());
  report.references = references.size();
  std::vector<double> scores, in, out;
  const auto included = std::make_unique<bool[]>(canaries.size());
  for (std::size_t i = 0; i < canaries.size(); ++i) {
    const double bits = exposure(moved[i], references).bits;
    included[i] = canaries[i].planted;
    scores.push_back(-moved[i]);
    (canaries[i].planted ? report.bits : report.other_bits).push_back(bits);
    (canaries[i].planted ? in : out).push_back(-moved[i]);
  }
  report.planted = in.size();
  report.others = out.size();
  report.median_bits = median(report.bits);
  report.other_median_bits = median(report.other_bits);
  for (const double bits : report.bits) report.mean_bits += bits / static_cast<double>(report.bits.size());
  report.by_loss = membership(in, out);

  if (!shadows.empty()) {
    const std::vector<double> losses = run.losses(run.model(), texts);
    std::vector<std::vector<double>> with(canaries.size()), without(canaries.size());
    for (const auto& shadow : shadows) {
      check_shadow(run, *shadow);
      const std::vector<double> theirs = shadow->losses(shadow->model(), canary_examples(shadow->experiment()));
      for (std::size_t i = 0; i < canaries.size(); ++i) {
        (shadow->experiment().canaries()[i].planted ? with : without)[i].push_back(theirs[i]);
      }
    }
    report.shadow_runs = shadows.size();
    scores.clear();
    in.clear();
    out.clear();
    for (std::size_t i = 0; i < canaries.size(); ++i) {
      scores.push_back(likelihood_ratio(losses[i], with[i], without[i]));
      (canaries[i].planted ? in : out).push_back(scores.back());
    }
    report.by_shadow_runs = membership(in, out);
    scores = below_expectation(losses, with, without);
  }
  const double delta = run.privacy() ? run.privacy()->delta : 0;
  report.bound = one_run_bound(scores, {included.get(), canaries.size()}, delta, confidence);
  report.gaussian_bound = gaussian_one_run_bound(scores, {included.get(), canaries.size()}, delta, confidence);
  report.not_comparable = difference(run);
  return report;
}

}  // namespace chorus::inline audits
