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
  /// Opens a workbench for some clients, all with the same model key, and a request; called by several threads at once.
  std::function<std::unique_ptr<Workbench>(std::span<const ClientId>, const Request&)> open;
  std::size_t cohort_batch = 8;     ///< C: clients of one batched computation
  std::size_t workers = 1;          ///< such computations side by side
  int threads = 1;                  ///< inside each of them
  const Gate* gate = nullptr;       ///< the clients' end of the channel; borrowed, may be null
  std::uint64_t layout = 0;         ///< fingerprint of what trains; a request that states another one is refused
  std::function<bool()> stop = {};  ///< true: give up, as soon as a computation has ended (Ctrl-C)
};

/// Clients that live in this process. A cohort is cut, in the order it is given, into batches of up to C clients with
/// the same model key, and each batch runs the procedure at once. Batches run on `workers` threads while somebody reads
/// the replies; at most two batches per worker wait to be read.
///
/// What a client replies depends on which clients share its batch (within rounding), and on nothing else: not on the
/// number of workers, nor on who is done first. A batch that does not fit into memory is done again in halves, and
/// batches stay that small. A procedure that throws fails its client: a batch is done again in halves until the client
/// is found. ConfigError and Interrupted end the ask instead.
///
/// Nobody is late here: Request::deadline and Request::enough are for the emulated clock (EmulatedFederation) and for
/// real networks (RemoteFederation), since results must not depend on this machine's speed.
///
/// In a session the batches of its first ask, and their workbenches, stay until it ends.
///
/// When the federation goes, work under way is stopped; replies that nobody has read yet say so.
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

 private:
  struct Shared;
  class Work;
  std::shared_ptr<Shared> shared_;
};

}  // namespace chorus::inline federation
