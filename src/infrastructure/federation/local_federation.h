#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "core/ports/federation.h"
#include "core/ports/gate.h"
#include "core/ports/workbench.h"

namespace chorus::inline federation {

struct LocalFederationInput {
  Roster roster = {};
  /// Opens a workbench for clients with the same model key, and a request; called from several threads.
  std::function<std::unique_ptr<Workbench>(std::span<const ClientId>, const Request&)> open;
  std::size_t cohort_batch = 8;     ///< C: clients per batched computation
  std::size_t workers = 1;          ///< batched computations side by side
  int threads = 1;                  ///< threads per computation
  const Gate* gate = nullptr;       ///< the clients' end of the channel; borrowed, may be null
  std::uint64_t layout = 0;         ///< fingerprint of the trainable layout; a request with another one is refused
  std::function<bool()> stop = {};  ///< true: stop after the current computation (Ctrl-C)
};

/// Clients in this process. A cohort is split, in its order, into batches of up to C clients with the same model key,
/// and each batch runs the procedure as one computation. Batches run on `workers` threads while the caller reads the
/// replies; at most two batches per worker wait to be read.
///
/// A client's reply depends on which clients share its batch (up to rounding), and on nothing else: not on the number
/// of workers, nor on which batch finishes first. A batch that does not fit into memory is repeated in halves, and
/// later batches stay that small. A procedure that throws fails its client: the batch is repeated in halves until the
/// client is found. ConfigError and Interrupted end the ask instead.
///
/// No client is ever late here: Request::deadline and Request::enough are for the emulated clock (EmulatedFederation)
/// and for real networks (RemoteFederation), since results must not depend on this machine's speed.
///
/// In a session the batches of its first ask and their workbenches persist until it ends.
///
/// Destroying the federation stops its work; replies not yet read become failures that say so. Dropping the replies of
/// an ask stops it, too. Work that has begun ends at its next stop_point (core/base/stop_point.h).
class LocalFederation : public Federation {
 public:
  explicit LocalFederation(LocalFederationInput input);
  ~LocalFederation() override;
  LocalFederation(const LocalFederation&) = delete;
  LocalFederation& operator=(const LocalFederation&) = delete;

  const Roster& roster() const override;
  Replies ask(std::span<const ClientId> cohort, Request request) override;
  void end_session(std::uint64_t session) override;
  Traffic traffic() const override;
  /// Returns when the newest ask has a reply, or has ended.
  void wait(double seconds) override;

 private:
  struct Shared;
  class Work;
  std::shared_ptr<Shared> shared_;
};

}  // namespace chorus::inline federation
