#pragma once

#include <cstdint>

namespace chorus::inline secure_graph {

/// What a server may do: follow the protocol and read everything it sees (curious), or also lie after the keys have
/// been exchanged (semi-malicious, Bell et al. 2020, section 4).
enum class ServerKind { kCurious, kSemiMalicious };

inline constexpr double kUsualCorrupt = 0.1, kUsualDropout = 0.2;

struct GraphRequest {
  std::int64_t clients = 0;
  double corrupt = kUsualCorrupt;  ///< share of clients that collude with the server, rounded down to whole clients
  double dropout = kUsualDropout;  ///< share of clients that may drop out, likewise
  ServerKind server = ServerKind::kCurious;
  double security_bits = 40;     ///< a secret leaks with probability at most 2^-this; at most 200
  double correctness_bits = 20;  ///< a round fails with probability at most 2^-this; at most 200

  /// The same with both shares rounded up to whole clients: a tenth of four clients is one of them.
  GraphRequest in_whole_clients() const;
};

struct GraphChoice {
  std::int64_t neighbours = 0;  ///< k
  std::int64_t threshold = 0;   ///< t of the k shares of a key
  std::int64_t colluding = 0;   ///< most colluding neighbours that any client has
};

/// The cheapest random k-regular graph for SecAgg+ (Bell et al. 2020): the smallest even k < n - 1 such that
///   - P[honest survivors are not connected] < 2^-(security + 1). A set that disconnects H(k, n) has k / 2 consecutive
///     clients in two places of the ring; union bound over the n (n - k - 1) / 2 pairs of places;
///   - t <= t2, where P[colluding neighbours > t1] <= 2^-(security + 1) / n and P[surviving neighbours < t2] <=
///     2^-correctness / n (hypergeometric tails). t = t1 + 1, at least 2.
/// Against a semi-malicious server t must satisfy 2t > k + t1, so that no two groups of neighbours can each hold t
/// shares of the two keys of one client.
///
/// ConfigError when the request makes no sense, or no such graph exists (then the complete graph is the choice).
GraphChoice find_graph(const GraphRequest& request);

}  // namespace chorus::inline secure_graph
