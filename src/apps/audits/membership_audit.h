#pragma once

#include <cstdint>

#include "algorithm/audit/membership.h"
#include "apps/audits/audited_run.h"

namespace chorus::inline audits {

/// Membership inference on ordinary examples: does their loss tell training examples from test examples (Yeom et al.
/// 2018)? `calibrated` compares the loss with that of the network as it began, so that easy texts do not pass for
/// members.
struct MembershipReport {
  std::size_t members = 0, others = 0;
  Membership by_loss = {}, calibrated = {};
};

/// With at most `examples` of each kind, drawn by the run's seed.
MembershipReport audit_membership(const AuditedRun& run, std::size_t examples);

}  // namespace chorus::inline audits
