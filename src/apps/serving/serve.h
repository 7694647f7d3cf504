#pragma once

#include "apps/serving/deployment.h"

namespace chorus::inline serving {

/// The server of a fleet: one run from its first (or next) round to its end, with clients that connect and leave. See
/// Deployment::serve.
///
/// The fleet's folder remembers the run in `serving.json` until it has ended, so the same command goes on after a kill.
/// A round that has too few replies is repeated from the newest checkpoint.
RunReport serve_experiment(const ExperimentConfig& config, const ServeRequest& request);

}  // namespace chorus::inline serving
