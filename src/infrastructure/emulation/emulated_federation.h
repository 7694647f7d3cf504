#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "core/ports/forwarding_federation.h"
#include "infrastructure/emulation/fleet.h"

namespace chorus::inline emulation {

struct EmulatedFederationInput {
  Federation& inner;  ///< who really answers; borrowed, as is the fleet
  const Fleet& fleet;
  EmulatedWork work = {};  ///< of a batch; a request's numbers "depth" and "cached" come first
  /// Of clients with another network than the server's, by its key (RosterEntry::model).
  std::map<std::string, EmulatedWork> network_work = {};
  std::function<double()> clock = {};  ///< the emulated time when asked, seconds; empty: 0
  /// Batches of one pass over a client's data, for answers that do not tell (and for clients that vanish).
  std::function<double(ClientId)> batches = {};
};

/// A federation on the emulated clock: fills in what every reply would have cost on its client's device, and leaves
/// out those that come too late. Around any federation; the bytes are those of its replies.
///
///   vanished         (`dropout`) is not asked at all; it has spent its share of the time when it goes. The server
///                    waits for it until the deadline, or, without one, until it goes.
///   late             after the deadline: its reply is dropped, its work and traffic are counted.
///   too small        the device has not the memory (`fleet.memory`) for what is asked, all of the network or the share
///   of
///                    it in the request's number "share": it is not asked.
///   over-selection   of those asked, the first Request::enough replies are used; the round ends with the last of them.
///                    At most these are held in memory.
///
/// A reply that is left out is never accepted, so its client keeps no state from it. The time of a request is the
/// largest `cost.seconds` of its replies. A client's work is the reply's number "load", in training batches; without it
/// "batches", and without both one pass over its data. "load_texts" are further texts, read in batches of any size.
/// Requests that only measure ("evaluate", "ditto/evaluate") cost nothing; "loss" costs a third of a pass over the
/// data.
class EmulatedFederation : public ForwardingFederation {
 public:
  explicit EmulatedFederation(const EmulatedFederationInput& input);

  /// With the capacities of the devices, where their memory is limited.
  const Roster& roster() const override { return limited_ ? roster_ : inner().roster(); }
  Replies ask(std::span<const ClientId> cohort, Request request) override;

 private:
  class Asking;
  EmulatedFederationInput input_;
  bool limited_ = false;  // in memory
  Roster roster_;
  std::shared_ptr<const EmulatedFederationInput> shared_;  // with replies that may outlive this
};

}  // namespace chorus::inline emulation
