#include "algorithm/local_dp/label_response.h"

#include <fmt/format.h>

#include <algorithm>

namespace chorus::inline local_dp {

LabelResponse::LabelResponse(const LabelGuardInput& input)
    : epsilon_(input.epsilon),
      response_(input.epsilon, input.labels),
      ledger_({input.folder / "labels.ledger", input.copies}, Adjacency::kReplace) {
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
    std::int64_t times = 0;
    for (const Mechanism& m : ledger_.releases(0, client).mechanisms) times += m.steps;
    report.epsilon = std::max(report.epsilon, static_cast<double>(times) * epsilon_);
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
