#pragma once

#include <functional>
#include <span>

#include "core/ports/aggregation.h"
#include "core/ports/forwarding_federation.h"

namespace chorus::inline federated {

/// Sums where the clients are: processes of one job (MPI) add up the updates of their clients before they send them.
///
/// WeightedMean adds eight neighbours of the cohort first and then pairs of such sums, whatever the order of arrival. A
/// process that trained all eight sends their sum, one vector instead of eight, and the result has the same bits as if
/// it had sent each. Updates of neighbours that are in different processes travel alone.
///
///     RankSums server(linked);                  // at rank 0, as the server reaches the clients
///     SummingClients clients(half.clients());   // at every rank, as the transport reaches them
class RankSums : public ForwardingFederation {
 public:
  /// Borrowed: the link to processes whose clients are SummingClients.
  using ForwardingFederation::ForwardingFederation;
};

/// Asks the clients' processes for sums, if they can sum (RankSums) and nobody wants to see single updates. False: the
/// request stays as it is.
bool wish_for_sums(AggregationInput& input);
/// The weighted mean of the answers to such a request.
Aggregated mean_of_sums(AggregationInput& input);

/// The clients' end: answers requests for sums, and passes on all others.
class SummingClients : public ForwardingFederation {
 public:
  /// Borrowed. Clients must keep nothing between rounds: a sum is used or not used as a whole.
  using ForwardingFederation::ForwardingFederation;
  Replies ask(std::span<const ClientId> cohort, Request request) override;

 private:
  class Summing;
};

}  // namespace chorus::inline federated
