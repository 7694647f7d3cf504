#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "algorithm/secure/graph/neighbour_graph.h"
#include "algorithm/secure/primitives.h"
#include "core/base/client_id.h"

namespace chorus::inline secure {

/// What the server is trusted with. Reports name it.
///   kSemiHonest  it follows the protocol and reads everything it sees
///   kActive      it may lie: keys are signed, clients compare their lists of survivors
enum class Trust { kSemiHonest, kActive };
const char* name_of(Trust trust);

/// The parameters of a secure sum. Every client has its own copy and checks it; none comes from a message.
struct SumParameters {
  Trust trust = Trust::kSemiHonest;
  std::size_t neighbours = 0;    ///< k, even; with k >= clients - 1 the graph is complete
  std::size_t threshold = 0;     ///< t: shares that reconstruct a secret
  std::size_t colluding = 0;     ///< neighbours of a client that may collude with the server
  std::size_t least_cohort = 2;  ///< a sum over fewer clients is never revealed
  unsigned ring_bits = 32;       ///< 32 or 64
  std::size_t length = 0;        ///< elements of an input

  /// What makes them unsafe or meaningless, or "": t must exceed the colluding neighbours. Against an active server 2t
  /// must exceed k + colluding, so that two disjoint groups of neighbours cannot be told different things about one
  /// client.
  std::string mistake() const;
};

/// The complete graph for n clients with the thresholds of Bonawitz et al. 2017: t > k / 2 against a semi-honest
/// server, t > 2n / 3 against an active one that colludes with up to a third of the clients.
SumParameters complete_graph(std::size_t clients, Trust trust);

/// One secure sum: the invited clients, and what all must agree on.
struct SumSession {
  SumParameters parameters = {};
  std::vector<ClientId> cohort = {};              ///< invited, ascending
  Digest nonce = {};                              ///< fresh for every attempt, chosen by the server
  Digest agreed = {};                             ///< hash of model, configuration and round
  std::map<ClientId, PublicKey> identities = {};  ///< who signs with which key; for Trust::kActive

  /// A hash of all of the above. It enters every key, so clients that disagree on anything (such as the model they
  /// received) have masks that do not cancel.
  Digest context() const;
};

/// The graph among the clients that sent keys, derived from the session id, which is a hash of all keys. Nobody chooses
/// neighbours directly, but whoever fixes the last input of the hash can try again until it likes the graph: a client
/// that colludes with the server and sends its keys after it has seen all others, or the server, which leaves clients
/// out. So the probabilities of graph_finder.h hold for one graph; a party that tries 2^b graphs
/// in the time of a round takes b bits off them. This is outside the semi-honest model, where nobody tries again, and a
/// limit of active mode: there the thresholds (2t > k + colluding) hold for the colluding neighbours that are expected.
NeighbourGraph graph_of(const Digest& session, std::size_t clients, std::size_t k);

}  // namespace chorus::inline secure
