#include "algorithm/local_dp/label_response.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace chorus::inline local_dp {
namespace {

// Of one answer, as it was charged: the configuration may have changed since. Rounded up.
double epsilon_of(const Mechanism& response) {
  const double other = response.noise / static_cast<double>(response.buckets);
  return std::log((1 - response.noise + other) / other) * (1 + 1e-12);
}

}  // namespace

LabelResponse::LabelResponse(const LabelGuardInput& input)
    : response_(input.epsilon, input.labels),
      ledger_({input.folder / "labels.ledger", input.copies, input.mark}, Adjacency::kReplace) {
  const auto labels = static_cast<double>(input.labels);
  const Mechanism release{.kind = MechanismKind::kRandomizedResponse,
                          .noise = (1 - response_.keeps()) * labels / (labels - 1),
                          .buckets = static_cast<std::int64_t>(input.labels)};
  std::vector<BudgetLedger::Charge> charges;
  for (const ClientId client : input.clients) charges.push_back({release, "labels", client});
  if (!charges.empty()) ledger_.charge(charges);
}

std::int32_t LabelResponse::answer(std::int32_t own) {
  return static_cast<std::int32_t>(response_.answer(stream_, static_cast<std::size_t>(own)));
}

PrivacyReport LabelResponse::report() const {
  PrivacyReport report{
      .noise = 1 - response_.keeps(), .sampling_rate = 1, .charges = static_cast<std::int64_t>(ledger_.charges())};
  for (const std::uint64_t client : ledger_.clients()) {
    double sum = 0;
    for (const Mechanism& m : ledger_.releases(0, client).mechanisms)
      sum += static_cast<double>(m.steps) * epsilon_of(m);
    report.epsilon = std::max(report.epsilon, sum);
  }
  report.statement = fmt::format(
      "The label of every training example is ({:.4g}, 0)-differentially private towards the server and everybody else "
      "(local model, label level, adjacency replace): clients trained on randomized responses, which are another label "
      "than the own one with probability {:.3g}. Not protected: texts, how many examples a client has, and scores on "
      "clients' own test examples.",
      report.epsilon, report.noise);
  return report;
}

namespace {

const Registration<LabelGuards> kRegisteredLabelResponse{
    "randomized_response", "labels of trainer.label_epsilon: local differential privacy (Warner 1965)",
    [](const LabelGuardInput& input) { return std::make_unique<LabelResponse>(input); }};

}  // namespace
}  // namespace chorus::inline local_dp
