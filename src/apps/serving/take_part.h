#pragma once

#include "apps/serving/deployment.h"

namespace chorus::inline serving {

/// A client of a fleet: connects, gets a job, trains on its owner's files when it is asked to, and connects again
/// whenever the connection ends. See Deployment::join.
///
/// Everything that leaves the machine is in identity/egress.jsonl first (infrastructure/egress). What does not fit (a
/// label that the server does not know, another network) is told in this machine's log; the server hears that it does
/// not fit, and nothing of the data.
void take_part(const JoinRequest& request);

}  // namespace chorus::inline serving
