#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "algorithm/noise_shares/noisy_scale.h"
#include "algorithm/secure/common_scale.h"
#include "algorithm/secure/graph/graph_finder.h"
#include "algorithm/secure/session.h"
#include "algorithm/secure/sum_party.h"
#include "core/ports/aggregation.h"

namespace chorus::inline secure_mean {

enum class SumProtocol { kSecAgg, kSecAggPlus, kLightSecAgg };
const char* name_of(SumProtocol protocol);

/// Everything that a server and its clients agree on before a secure sum. It travels with the first request; a client
/// derives the graph and the thresholds from it itself, so a server cannot lower them without lowering what it states.
///
///     SumPlan plan = ...;  plan.write(request.body);           // server
///     const SumPlan plan = SumPlan::read(request);        // client: DataError for what it does not accept
struct SumPlan {
  SumProtocol protocol = SumProtocol::kSecAggPlus;
  Trust trust = Trust::kSemiHonest;
  double corrupt = kUsualCorrupt;  ///< share of the cohort that may collude with the server
  double dropout = kUsualDropout;  ///< share of the cohort that may vanish
  std::size_t least = 3;           ///< fewest clients in a sum that is revealed
  ScaleSettings scale = {};        ///< its `clients` is the size of the cohort
  std::vector<AggregatedTensor> tensors = {{}};
  std::int64_t size = 0;  ///< elements of each tensor
  Weighting weighting = Weighting::kExamples;
  std::uint64_t seed = 0;   ///< of the stochastic rounding and of `keep`, below 2^53; public
  double keep = 1;          ///< share of elements that is summed, at positions drawn from seed and round: random-k
  std::size_t rare = 0;     ///< rows of word tables that fewer clients changed are left out; 0: none are
  std::uint64_t round = 0;  ///< of the request
  NoiseShare noise = {};    ///< that clients add before they mask (distributed_dp); then `scale` has no say but bits

  void write(Message& body) const;
  static SumPlan read(const Request& request);
  /// Whether both state the same, but for how many clients are invited.
  bool same_terms(const SumPlan& other) const;

  /// Bits of a machine word of the ring or field.
  unsigned ring_bits() const;
  /// Bits that a signed sum may have.
  unsigned capacity() const;
  /// For the whole cohort. ConfigError when no such sum is safe.
  SumParameters parameters(std::size_t length) const;
};

/// Why `rare` and Trust::kActive exclude each other.
inline constexpr const char* kNoRareRows =
    "rare_rows: the server tells clients which rows are rare, and they cannot check it, so it does not hold against a "
    "server that lies; leave it out, or set server: semi_honest";

/// The fields of a request that belong to the secure sum begin with this; what it wraps does not see them.
inline constexpr const char* kSecurePrefix = "secure.";

/// A hash of everything a request says to all clients: procedure, round, model, numbers and the plan. It becomes
/// SumSession::agreed, so clients that were given different models have masks that do not cancel.
Digest digest_of(const Request& request);
/// SumSession::agreed of a second sum in the same session, which goes on with what the first one's request said to all.
Digest agreed_after(const Digest& first, const Request& second);

/// Of inputs with so many elements; the same for both sides, but for SumSession::identities. `cohort` ascending.
struct SessionInput {
  std::vector<ClientId> cohort;
  Digest nonce = {}, agreed = {};
  std::size_t length = 0;
};
SumSession session_of(const SumPlan& plan, SessionInput input);

struct PartyInput {
  ClientId self = 0;
  RingVector input;
  std::shared_ptr<const SigningKeys> identity = nullptr;  ///< for Trust::kActive
};
std::unique_ptr<SumParty> make_party(const SumPlan& plan, SumSession session, PartyInput input);
std::unique_ptr<SumHost> make_host(const SumPlan& plan, SumSession session, unsigned threads);

/// Bytes as a tensor of a message, and back. DataError when it is none.
at::Tensor tensor_of(ByteView bytes);
ByteView bytes_of(const Message& message, const char* name);

}  // namespace chorus::inline secure_mean
