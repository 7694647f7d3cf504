#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "algorithm/audit/membership.h"
#include "apps/audits/audited_run.h"

namespace chorus::inline audits {

/// Whether a run has forgotten clients: the same attacks on the run before and after.
struct UnlearningReport {
  struct Side {
    std::size_t canaries = 0;    ///< that were planted with the clients
    double exposure_median = 0;  ///< of these
    Membership membership = {};  ///< of the clients' own examples, against test examples
    double loss = 0;             ///< mean, of their examples
  };
  Side before = {}, after = {};
};

UnlearningReport audit_unlearning(const AuditedRun& before, const AuditedRun& after,
                                  std::span<const std::int64_t> clients);
std::string to_text(const UnlearningReport& report);

}  // namespace chorus::inline audits
