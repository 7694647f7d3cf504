#include "apps/audits/unlearning_audit.h"

#include <fmt/format.h>

#include <algorithm>

#include "algorithm/audit/exposure.h"
#include "apps/experiment/canary_exposure.h"
#include "core/base/error.h"

namespace chorus::inline audits {
namespace {

UnlearningReport::Side side_of(const AuditedRun& run, std::span<const std::uint32_t> examples,
                               std::span<const std::uint32_t> canaries) {
  UnlearningReport::Side side;
  const auto scores = [&](const std::vector<double>& after, const std::vector<double>& before) {
    std::vector<double> result;
    for (std::size_t i = 0; i < after.size(); ++i) result.push_back(before[i] - after[i]);
    return result;
  };
  std::vector<std::uint32_t> others = run.experiment().shared_test();
  if (others.size() > 500) others.resize(500);
  const auto in = run.losses(run.model(), examples);
  side.membership = membership(scores(in, run.losses(run.start(), examples)),
                               scores(run.test_losses(run.model(), others), run.test_losses(run.start(), others)));
  for (const double loss : in) side.loss += loss / static_cast<double>(in.size());
  side.canaries = canaries.size();
  if (canaries.empty()) return side;
  const auto references =
      loss_changes(run.experiment(), run.start(), run.model(), run.experiment().canary_references());
  std::vector<double> bits;
  for (const double change : loss_changes(run.experiment(), run.start(), run.model(), canaries)) {
    bits.push_back(exposure(change, references).bits);
  }
  std::sort(bits.begin(), bits.end());
  side.exposure_median = bits[bits.size() / 2];
  return side;
}

}  // namespace

UnlearningReport audit_unlearning(const AuditedRun& before, const AuditedRun& after,
                                  std::span<const std::int64_t> clients) {
  const Experiment& experiment = before.experiment();
  std::vector<std::uint32_t> examples, canaries;
  for (const std::int64_t client : clients) {
    const auto own = experiment.partition().train[static_cast<std::size_t>(client)];
    examples.insert(examples.end(), own.begin(), own.end());
  }
  for (const Canary& canary : experiment.canaries()) {
    const bool theirs =
        std::find(clients.begin(), clients.end(), static_cast<std::int64_t>(canary.client)) != clients.end();
    if (canary.planted && theirs) canaries.push_back(canary.examples.front());
  }
  if (examples.empty()) throw ConfigError("--client: these clients have no examples to forget");
  return {side_of(before, examples, canaries), side_of(after, examples, canaries)};
}

std::string to_text(const UnlearningReport& report) {
  const auto line = [](const char* name, double before, double after) {
    return fmt::format("  {:<46} {:>8.3f} {:>8.3f}\n", name, before, after);
  };
  const UnlearningReport::Side &b = report.before, &a = report.after;
  std::string text =
      fmt::format("  {:<46} {:>8} {:>8}\n", "what the model knows of the forgotten clients", "before", "after");
  text += line("membership of their examples (AUC, 0.5: guessing)", b.membership.auc, a.membership.auc);
  text += line("mean loss of their examples", b.loss, a.loss);
  if (b.canaries > 0) {
    text += line(fmt::format("exposure of their {} canaries (median bits)", b.canaries).c_str(), b.exposure_median,
                 a.exposure_median);
  }
  return text;
}

}  // namespace chorus::inline audits
