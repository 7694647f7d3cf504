#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/ports/client_gate.h"
#include "core/ports/federation.h"
#include "core/ports/workbench.h"

namespace chorus {

struct LocalFederationInput {
  std::span<const double> sizes;  ///< borrowed
  /// Opens the given clients for a request; called by several threads at once.
  std::function<std::unique_ptr<Workbench>(std::span<const ClientId>, const Request&)> open;
  std::size_t cohort_batch = 8;      ///< C: clients of one batched computation
  std::size_t workers = 1;           ///< such computations side by side
  int threads = 1;                   ///< inside each of them
  const ClientGate* gate = nullptr;  ///< between wire and procedures, on the clients' side; borrowed, may be null
  std::function<bool()> stop = {};   ///< true: give up, as soon as a computation has ended (Ctrl-C)
};

/// Clients that live in this process. A cohort is cut, in the order it is given, into batches of up to C clients, and
/// each batch runs the procedure at once (DESIGN, idea 1). Batches run on `workers` threads while somebody reads the
/// replies; at most two batches a worker wait to be read.
///
/// What a client answers depends on which clients share its batch (within rounding), and on nothing else: not on the
/// number of workers, nor on who is done first.
class LocalFederation : public Federation {
 public:
  explicit LocalFederation(const LocalFederationInput& input);
  ~LocalFederation() override;

  std::span<const double> sizes() const override { return input_.sizes; }
  /// The replies throw what a procedure throws, and Interrupted after a stop.
  Replies ask(std::span<const ClientId> cohort, Request request) override;
  Traffic traffic() const override;

 private:
  class Work;
  LocalFederationInput input_;
  std::shared_ptr<Traffic> traffic_;
  std::shared_ptr<std::atomic<std::size_t>> batch_;  // clients at once; fewer after memory was short
};

}  // namespace chorus
