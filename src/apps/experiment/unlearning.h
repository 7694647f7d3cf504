#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "apps/experiment/run_experiment.h"

namespace chorus::inline experiment {

/// Makes a finished run forget clients.
struct UnlearnRequest {
  enum class Method {
    kExact,     ///< trained again from the beginning without them: as if they had never taken part
    kRollback,  ///< back to the oldest checkpoint that is left, then more rounds without them: cheaper, approximate
  };
  std::filesystem::path run;  ///< is left as it is
  std::filesystem::path out;  ///< the new run
  std::vector<std::int64_t> clients = {};
  Method method = Method::kExact;
  std::int64_t rounds = 0;  ///< kRollback: corrective rounds; 0: as many as the run made since the checkpoint
};

/// Copies the run without what came from training (all of it, or what came after the checkpoint), adds the clients to
/// `clients.exclude` of its configuration, and resumes it. Privacy ledgers are copied: a budget never gets smaller.
/// ConfigError for a run that is not finished, a client that it does not have, or an `out` that exists.
RunReport unlearn(const UnlearnRequest& request, const RunRequest& how);

}  // namespace chorus::inline experiment
