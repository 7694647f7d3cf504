#include "algorithm/secure_mean/sum_plan.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "algorithm/secure/coded_mask.h"
#include "algorithm/secure/graph/graph_finder.h"
#include "algorithm/secure/light_server.h"
#include "algorithm/secure/sum_client.h"
#include "algorithm/secure/sum_server.h"
#include "algorithm/secure_mean/input_codec.h"
#include "core/base/error.h"

namespace chorus::inline secure_mean {
namespace {

constexpr double kMostExact = 9007199254740992.0;  // 2^53: integers that a double holds
constexpr std::size_t kMostTensors = 16;
// A client takes part only where at least this share may collude: with less, thresholds become meaningless.
constexpr double kLeastCorrupt = 0.01;

std::string secure_field(const char* name) { return std::string(kSecurePrefix) + name; }

double whole_number(const Message& body, const char* name, double least, double most) {
  const double value = body.number(secure_field(name));
  if (!(value >= least && value <= most) || value != std::floor(value)) {
    throw DataError(fmt::format("the secure sum's {} is {}, which is not possible", name, value));
  }
  return value;
}

double real_number(const Message& body, const char* name, double least, double most) {
  const double value = body.number(secure_field(name));
  if (!(value >= least && value <= most)) {
    throw DataError(fmt::format("the secure sum's {} is {}, which this client does not accept", name, value));
  }
  return value;
}

// The least cohort is what a client insists on, so it bounds how many shares of noise a sum has.
NoiseShare noise_in(const Message& body, const SumPlan& plan) {
  NoiseShare noise;
  noise.kind = static_cast<NoiseKind>(whole_number(body, "noise_kind", 1, 2));
  noise.noise = real_number(body, "noise", 1e-3, 1e5);
  noise.clip = real_number(body, "noise_clip", 1e-30, 1e30);
  noise.honest = static_cast<std::size_t>(whole_number(body, "noise_honest", 1, 1e6));
  noise.bits = plan.scale.bits;
  noise.clients = plan.scale.clients;
  const double colluding = std::ceil(plan.corrupt * static_cast<double>(plan.scale.clients) - 1e-9);
  if (static_cast<double>(noise.honest) + colluding > static_cast<double>(plan.least) || plan.tensors.size() != 1 ||
      plan.keep < 1 || plan.rare > 0 || plan.weighting != Weighting::kEqual) {
    throw DataError("the noise of this secure sum is less than what it is said to be");
  }
  return noise;
}

/// Throws where the complete graph bears fewer colluding or vanishing clients than asked for.
void check_complete(const SumParameters& parameters, double corrupt, double dropout) {
  const std::size_t n = parameters.neighbours + 1;
  const auto colluding = static_cast<std::size_t>(std::ceil(corrupt * static_cast<double>(n) - 1e-9));
  const auto vanishing = static_cast<std::size_t>(dropout * static_cast<double>(n) + 1e-9);
  // A client's seeds come from the shares of its neighbours that stay.
  if (colluding <= parameters.colluding && vanishing + parameters.threshold <= parameters.neighbours) return;
  throw ConfigError(fmt::format(
      "secagg_plus: of {} clients {} may collude and {} may vanish, but a sum bears at most {} and {} ({}); lower "
      "corrupt or dropout",
      n, colluding, vanishing, parameters.colluding, parameters.neighbours - parameters.threshold,
      name_of(parameters.trust)));
}

}  // namespace

const char* name_of(SumProtocol protocol) {
  switch (protocol) {
    case SumProtocol::kSecAgg:
      return "secagg";
    case SumProtocol::kSecAggPlus:
      return "secagg_plus";
    case SumProtocol::kLightSecAgg:
      break;
  }
  return "light_secagg";
}

void SumPlan::write(Message& body) const {
  const auto put = [&](const char* name, double value) { body.numbers[secure_field(name)] = value; };
  put("protocol", static_cast<double>(protocol));
  put("active", trust == Trust::kActive ? 1 : 0);
  put("corrupt", corrupt);
  put("dropout", dropout);
  put("least", static_cast<double>(least));
  put("clip", scale.clip);
  put("norm", scale.norm);
  put("bits", scale.bits);
  put("most_weight", static_cast<double>(scale.most_weight));
  put("clients", static_cast<double>(scale.clients));
  put("size", static_cast<double>(size));
  put("weighting", static_cast<double>(weighting));
  put("seed", static_cast<double>(seed));
  put("keep", keep);
  put("rare", static_cast<double>(rare));
  if (noise.on()) {
    put("noise_kind", static_cast<double>(noise.kind));
    put("noise", noise.noise);
    put("noise_clip", noise.clip);
    put("noise_honest", static_cast<double>(noise.honest));
  }
  put("tensors", static_cast<double>(tensors.size()));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    body.texts[secure_field("tensor.") + std::to_string(i)] = tensors[i].name;
    body.numbers[secure_field("equal.") + std::to_string(i)] = tensors[i].equal ? 1 : 0;
  }
}

SumPlan SumPlan::read(const Request& request) {
  const Message& body = request.body;
  SumPlan plan;
  plan.round = request.round;
  plan.keep = real_number(body, "keep", 1e-9, 1);
  plan.rare = static_cast<std::size_t>(whole_number(body, "rare", 0, 1e6));
  plan.protocol = static_cast<SumProtocol>(whole_number(body, "protocol", 0, 2));
  plan.trust = whole_number(body, "active", 0, 1) == 1 ? Trust::kActive : Trust::kSemiHonest;
  plan.corrupt = real_number(body, "corrupt", kLeastCorrupt, 1);
  plan.dropout = real_number(body, "dropout", 0, 1);
  plan.least = static_cast<std::size_t>(whole_number(body, "least", 2, 1e6));
  plan.scale.clip = real_number(body, "clip", 1e-30, 1e30);
  plan.scale.norm = real_number(body, "norm", 0, 1e30);
  plan.scale.bits = static_cast<unsigned>(whole_number(body, "bits", 2, 31));
  plan.scale.most_weight = static_cast<std::uint64_t>(whole_number(body, "most_weight", 1, 1e12));
  plan.scale.clients = static_cast<std::size_t>(whole_number(body, "clients", 2, 1e6));
  plan.size = static_cast<std::int64_t>(whole_number(body, "size", 1, 1e12));
  plan.weighting = static_cast<Weighting>(whole_number(body, "weighting", 0, 2));
  plan.seed = static_cast<std::uint64_t>(whole_number(body, "seed", 0, kMostExact));
  const auto count = static_cast<std::size_t>(whole_number(body, "tensors", 1, kMostTensors));
  plan.tensors.clear();
  for (std::size_t i = 0; i < count; ++i) {
    plan.tensors.push_back({body.text(secure_field("tensor.") + std::to_string(i)),
                            body.number(secure_field("equal.") + std::to_string(i)) != 0});
  }
  plan.scale.checksum = plan.protocol != SumProtocol::kLightSecAgg;
  if (body.numbers.contains(secure_field("noise_kind"))) plan.noise = noise_in(body, plan);
  if (plan.rare > 0 && plan.trust == Trust::kActive) throw DataError(kNoRareRows);
  return plan;
}

bool SumPlan::same_terms(const SumPlan& other) const {
  SumPlan among = other;
  among.scale.clients = scale.clients;
  Message mine, theirs;
  write(mine);
  among.write(theirs);
  return round == other.round && mine.numbers == theirs.numbers && mine.texts == theirs.texts;
}

unsigned SumPlan::ring_bits() const {
  if (noise.on()) {
    const bool field = protocol == SumProtocol::kLightSecAgg;
    const double bits = NoisyScale::bits_needed(noise, static_cast<std::size_t>(size));
    return bits < (field ? capacity_of_field(32) : 32) ? 32 : 64;
  }
  if (protocol != SumProtocol::kLightSecAgg) return CommonScale::ring_bits_for(scale);
  for (const unsigned bits : {32U, 64U}) {
    if (CommonScale::bits_needed(scale) < capacity_of_field(bits)) return bits;
  }
  throw ConfigError(fmt::format(
      "secure sum: {} clients with weights up to {} and {} bits per element do not fit into the field of 2^61 - 1; use "
      "fewer bits or smaller weights",
      scale.clients, scale.most_weight, scale.bits));
}

unsigned SumPlan::capacity() const {
  return protocol == SumProtocol::kLightSecAgg ? capacity_of_field(ring_bits()) : ring_bits();
}

SumParameters SumPlan::parameters(std::size_t length) const {
  const std::size_t n = scale.clients;
  SumParameters parameters = complete_graph(n, trust);
  if (protocol == SumProtocol::kLightSecAgg) {
    parameters = light_parameters(n, corrupt, dropout);
    if (parameters.threshold <= parameters.colluding) {
      throw ConfigError(fmt::format(
          "light_secagg: of {} clients {} may collude and {} may vanish, which are too many together; lower corrupt or "
          "dropout",
          n, parameters.colluding, n - parameters.threshold));
    }
  } else if (protocol == SumProtocol::kSecAggPlus) {
    const GraphRequest request{.clients = static_cast<std::int64_t>(n),
                               .corrupt = corrupt,
                               .dropout = dropout,
                               .server = trust == Trust::kActive ? ServerKind::kSemiMalicious : ServerKind::kCurious};
    try {
      const GraphChoice choice = find_graph(request.in_whole_clients());
      // With more neighbours than half of everybody the complete graph costs little more and bears more dropouts.
      if (2 * static_cast<std::size_t>(choice.neighbours) < n) {
        parameters.neighbours = static_cast<std::size_t>(choice.neighbours);
        parameters.threshold = static_cast<std::size_t>(choice.threshold);
        parameters.colluding = static_cast<std::size_t>(choice.colluding);
      }
    } catch (const ConfigError&) {
      // Too few clients for a sparse graph: everybody is a neighbour of everybody.
    }
    if (parameters.neighbours + 1 == n) check_complete(parameters, corrupt, dropout);
  }
  parameters.least_cohort = std::max(least, parameters.least_cohort);
  parameters.ring_bits = ring_bits();
  parameters.length = length;
  return parameters;
}

Digest digest_of(const Request& request) {
  const Message& body = request.body;
  Hash hash("chorus secure request 2");
  hash.add(request.procedure).add(request.round);
  hash.add("numbers").add(body.numbers.size());
  for (const auto& [name, value] : body.numbers) hash.add(name).add(std::as_bytes(std::span(&value, 1)));
  hash.add("texts").add(body.texts.size());
  for (const auto& [name, value] : body.texts) hash.add(name).add(value);
  hash.add("tensors").add(body.tensors.size());
  for (const auto& [name, value] : body.tensors) {
    const at::Tensor bytes = value.to(at::kCPU).contiguous();
    hash.add(name).add(static_cast<std::uint64_t>(bytes.scalar_type())).add(static_cast<std::uint64_t>(bytes.dim()));
    for (const std::int64_t size : bytes.sizes()) hash.add(static_cast<std::uint64_t>(size));
    hash.add(ByteView(static_cast<const std::byte*>(bytes.data_ptr()), bytes.nbytes()));
  }
  return hash.digest();
}

Digest agreed_after(const Digest& first, const Request& second) {
  return Hash("chorus second secure sum").add(first).add(digest_of(second)).digest();
}

SumSession session_of(const SumPlan& plan, SessionInput input) {
  SumSession session;
  session.parameters = plan.parameters(input.length);
  session.cohort = std::move(input.cohort);
  session.nonce = input.nonce;
  session.agreed = input.agreed;
  return session;
}

namespace {

/// A SumClient and the keys it signs with.
class SigningParty : public SumParty {
 public:
  SigningParty(SumSession session, PartyInput input)
      : identity_(std::move(input.identity)),
        client_(std::move(session), input.self, identity_ ? &identity_->secret : nullptr, std::move(input.input)) {}
  const Bytes& advertise() const override { return client_.advertise(); }
  Result<Bytes> receive(ByteView message) override { return client_.receive(message); }

 private:
  std::shared_ptr<const SigningKeys> identity_;
  SumClient client_;
};

}  // namespace

std::unique_ptr<SumParty> make_party(const SumPlan& plan, SumSession session, PartyInput input) {
  if (plan.protocol == SumProtocol::kLightSecAgg) {
    return std::make_unique<LightClient>(std::move(session), input.self, std::move(input.input));
  }
  return std::make_unique<SigningParty>(std::move(session), std::move(input));
}

std::unique_ptr<SumHost> make_host(const SumPlan& plan, SumSession session, unsigned threads) {
  if (plan.protocol == SumProtocol::kLightSecAgg) return std::make_unique<LightServer>(std::move(session));
  return std::make_unique<SumServer>(std::move(session), threads);
}

at::Tensor tensor_of(ByteView bytes) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  if (!bytes.empty()) std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

ByteView bytes_of(const Message& message, const char* name) {
  const at::Tensor& tensor = message.tensor(name);
  if (tensor.scalar_type() != at::kByte || !tensor.is_cpu() || !tensor.is_contiguous()) {
    throw DataError(fmt::format("\"{}\" should be bytes", name));
  }
  return {static_cast<const std::byte*>(tensor.data_ptr()), static_cast<std::size_t>(tensor.numel())};
}

}  // namespace chorus::inline secure_mean
