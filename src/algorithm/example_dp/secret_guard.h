#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "algorithm/privacy/budget_ledger.h"
#include "core/ports/example_guard.h"

namespace chorus::inline example_dp {

/// The guard of example-level privacy: `examples.ledger` in the run's folder has the charges of every client, samples
/// and noise come from keys that nobody has and that are never saved (noise/secret_stream.h).
///
/// Each client is accounted for on its own, because its examples are not those of another: the reported epsilon is the
/// largest of any client. Taking part in few rounds costs less; being drawn by the server is not counted as sampling,
/// since the server knows whom it asked.
///
///     SecretGuard guard({.config = config, .folder = run, .work = work, .rounds = 30});
///     guard.charge(work, round);
class SecretGuard : public ExampleGuard {
 public:
  explicit SecretGuard(const ExampleGuardInput& input);

  double noise() const override { return noise_; }
  std::vector<std::string> charge(std::span<const ExampleWork> work, std::uint64_t round) override;
  std::vector<std::uint32_t> sample(std::size_t examples, double rate) const override;
  void draw(std::span<std::int64_t> noise) const override;
  double epsilon() const override;
  std::string mark() const override;
  PrivacyReport report() const override;

 private:
  Mechanism mechanism_of(const ExampleWork& work) const;
  double renyi_epsilon(const Releases& releases) const;
  bool within_budget(const Releases& releases) const;
  double calibrated(const ExampleGuardInput& input) const;

  ExamplePrivacyConfig config_;
  double noise_;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<double, double>, std::vector<double>> step_costs_;  // (noise, rate): divergences
  std::unique_ptr<BudgetLedger> ledger_;
};

}  // namespace chorus::inline example_dp
