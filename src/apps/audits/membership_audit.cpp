#include "apps/audits/membership_audit.h"

#include <algorithm>
#include <set>

#include "core/base/rng.h"

namespace chorus::inline audits {
namespace {

std::vector<std::uint32_t> some_of(std::vector<std::uint32_t> examples, std::size_t most, std::uint64_t seed) {
  RandomStream({.seed = seed, .purpose = "membership audit"}).shuffle(std::span(examples));
  if (examples.size() > most) examples.resize(most);
  return examples;
}

std::vector<double> negative(const std::vector<double>& losses, const std::vector<double>* before) {
  std::vector<double> result;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const double score = (before != nullptr ? (*before)[i] : 0) - losses[i];
    if (score == score) result.push_back(score);  // texts without tokens have no loss
  }
  return result;
}

}  // namespace

MembershipReport audit_membership(const AuditedRun& run, std::size_t examples) {
  const Experiment& experiment = run.experiment();
  std::set<std::uint32_t> planted;
  for (const Canary& canary : experiment.canaries()) planted.insert(canary.examples.begin(), canary.examples.end());
  std::vector<std::uint32_t> training;
  for (const std::uint32_t id : experiment.partition().train.ids()) {
    if (!planted.contains(id)) training.push_back(id);
  }
  const auto seed = static_cast<std::uint64_t>(run.config().seed);
  const std::vector<std::uint32_t> members = some_of(training, examples, seed);
  const std::vector<std::uint32_t> others = some_of(experiment.shared_test(), examples, seed);
  const auto in = run.losses(run.model(), members), in_before = run.losses(run.start(), members);
  const auto out = run.test_losses(run.model(), others), out_before = run.test_losses(run.start(), others);
  return {members.size(), others.size(), membership(negative(in, nullptr), negative(out, nullptr)),
          membership(negative(in, &in_before), negative(out, &out_before))};
}

}  // namespace chorus::inline audits
