#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "algorithm/audit/membership.h"
#include "algorithm/audit/one_run_bound.h"
#include "apps/audits/audited_run.h"

namespace chorus::inline audits {

/// What the model remembers of the canaries. A canary's score is how much its loss fell by training, compared with the
/// network as it began (calibration by a reference model); the higher, the more it is remembered.
struct CanaryReport {
  std::size_t planted = 0, others = 0, references = 0;
  std::vector<double> bits = {};        ///< exposure of each planted canary (algorithm/audit/exposure.h)
  std::vector<double> other_bits = {};  ///< and of those that were not planted: what chance gives
  double median_bits = 0, mean_bits = 0, other_median_bits = 0;
  Membership by_loss = {};         ///< planted against not planted
  Membership by_shadow_runs = {};  ///< by LiRA; only with shadow runs
  std::size_t shadow_runs = 0;
  OneRunBound bound = {};           ///< on epsilon
  OneRunBound gaussian_bound = {};  ///< the same for Gaussian noise, tighter
  std::string not_comparable = {};  ///< why the bounds are not about what the run's epsilon protects; "": they are
  double confidence = 0.95;
};

/// `shadows` are runs of the same configuration with another `audit.seed`. ConfigError where there are no canaries.
CanaryReport audit_canaries(const AuditedRun& run, std::span<const std::unique_ptr<AuditedRun>> shadows,
                            double confidence);

}  // namespace chorus::inline audits
