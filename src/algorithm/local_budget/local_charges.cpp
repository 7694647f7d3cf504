#include "algorithm/local_budget/local_charges.h"

#include <fmt/format.h>

#include <algorithm>

namespace chorus::inline local_budget {

std::optional<Mechanism> release_of(std::span<const Choice<Filters>> filters) {
  for (Choice<Filters> choice : filters) {
    const bool gaussian = choice.name() == "local_gaussian";
    if (!gaussian && choice.name() != "local_laplace") continue;
    ConfigVisitor visitor;
    choice.describe(visitor);
    return Mechanism{.kind = gaussian ? MechanismKind::kGaussian : MechanismKind::kLaplace,
                     .noise = std::get<double>(visitor.find("noise")->get().front().second)};
  }
  return std::nullopt;
}

LocalCharges::LocalCharges(const Input& input)
    : ForwardingFederation(input.clients), input_(input), ledger_(input.place, Adjacency::kReplace) {}

namespace {

// Clients reply to these without any tensor that depends on their training examples.
bool releases_nothing(const std::string& procedure) {
  return procedure.ends_with("evaluate") || procedure == "distill/learn";
}

}  // namespace

Replies LocalCharges::ask(std::span<const ClientId> cohort, Request request) {
  if (!releases_nothing(request.procedure)) {
    std::vector<BudgetLedger::Charge> charges;
    for (const ClientId client : cohort) {
      charges.push_back({input_.release, fmt::format("round {}", request.round), client});
    }
    if (!charges.empty()) ledger_.charge(charges);
  }
  return inner().ask(cohort, std::move(request));
}

PrivacyReport LocalCharges::report() const {
  PrivacyReport report{.delta = input_.delta,
                       .noise = input_.release.noise,
                       .sampling_rate = 1,
                       .charges = static_cast<std::int64_t>(ledger_.charges())};
  // Of clients whose replies all cost the same, the one with most of them has spent most.
  std::int64_t most = 0, most_alike = 0;
  for (const std::uint64_t client : ledger_.clients()) {
    const Releases releases = ledger_.releases(report.delta, client);
    std::int64_t steps = 0;
    for (const Mechanism& m : releases.mechanisms) steps += m.steps;
    Mechanism one = releases.mechanisms.front();
    one.steps = input_.release.steps;
    most = std::max(most, steps);
    if (releases.mechanisms.size() == 1 && one == input_.release) {
      if (steps <= most_alike) continue;
      most_alike = steps;
    }
    report.epsilon = std::max(report.epsilon, account(releases, AccountantKind::kPld, std::size_t{1} << 18).epsilon);
  }
  report.statement = fmt::format(
      "Every client is ({:.4g}, {:g})-differentially private towards the server and everybody else (local model, "
      "adjacency replace: whatever data it has): its updates or predictions were clipped and got {} noise of {:.4g} "
      "times the bound on the client itself. The numbers are those of the client that sent most of them ({}). Not "
      "protected: how many examples it has, its training loss, and scores on its own test examples.",
      report.epsilon, report.delta, name_of(input_.release.kind), report.noise, most);
  return report;
}

}  // namespace chorus::inline local_budget
