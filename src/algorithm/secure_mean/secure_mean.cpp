#include "algorithm/secure_mean/secure_mean.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <thread>

#include "algorithm/federated/read_updates.h"
#include "algorithm/secure_mean/identity.h"
#include "algorithm/secure_mean/input_codec.h"
#include "algorithm/secure_mean/secure_procedures.h"
#include "algorithm/secure_mean/sum_cost.h"
#include "algorithm/secure_mean/sum_rounds.h"
#include "core/base/error.h"
#include "core/console/log.h"

namespace chorus::inline secure_mean {
namespace {

constexpr std::size_t kStays = std::numeric_limits<std::size_t>::max();

std::vector<ClientId> sorted_ids(std::span<const Member> cohort) {
  std::vector<ClientId> ids;
  for (const Member& member : cohort) ids.push_back(member.client);
  std::sort(ids.begin(), ids.end());
  return ids;
}

Aggregated abandoned_sum(const AggregationInput& input, std::vector<ClientReport> reports, const std::string& why) {
  Log("secure").warning("round {}: the secure sum was abandoned: {}", input.request.round, why);
  Aggregated result;
  result.means.resize(input.tensors.size());
  result.clients = std::move(reports);
  return result;
}

}  // namespace

void SecureMeanConfig::describe(ConfigVisitor& v) {
  v.field("clip", clip, "largest absolute value of an element of an update; larger ones are cut off")
      .above(0)
      .at_most(1e6);
  v.field("norm", norm, "largest L2 norm of an update, scaled down to before; 0: none").at_least(0).at_most(1e9);
  v.field("bits", bits, "of a quantised element, sign included").at_least(2).at_most(31);
  v.field("most_examples", most_examples, "a client's weight is cut off here, where weights are not equal")
      .at_least(1)
      .at_most(1e9);
  v.field("least_clients", least_clients, "a sum over fewer clients is never revealed").at_least(3).at_most(1e6);
  v.field("mode", mode, {{"real", Mode::kReal}, {"cost", Mode::kCost}},
          "cost: simulate only; plain sums that give the same bits, with the protocol's bytes and time added");
  v.field("vanish", vanish, "in a simulation: share of clients that vanish, each before a random step of the sum")
      .at_least(0)
      .below(1);
}

namespace {

void describe_server(ConfigVisitor& v, Trust& server) {
  v.field("server", server, {{"semi_honest", Trust::kSemiHonest}, {"active", Trust::kActive}},
          "what the server is trusted with. active: it may lie, so clients sign keys and the list of survivors");
}

}  // namespace

void SecAggConfig::describe(ConfigVisitor& v) {
  SecureMeanConfig::describe(v);
  describe_server(v, server);
}

void SecAggPlusConfig::describe(ConfigVisitor& v) {
  SecureMeanConfig::describe(v);
  describe_server(v, server);
  v.field("corrupt", corrupt, "share of clients that may collude with the server").at_least(0.01).below(0.9);
  v.field("dropout", dropout, "share of clients that may vanish without ending the sum").at_least(0).below(0.9);
}

void LightSecAggConfig::describe(ConfigVisitor& v) {
  SecureMeanConfig::describe(v);
  v.field("corrupt", corrupt, "T / clients: share that may collude with the server").at_least(0.01).below(0.9);
  v.field("dropout", dropout, "share of clients that may vanish without ending the sum").at_least(0).below(0.9);
}

SumPlan SecureMean::plan_for(std::size_t clients, Weighting weighting) const {
  const SecureMeanConfig& common = settings_.common;
  SumPlan plan;
  plan.protocol = settings_.protocol;
  plan.trust = settings_.server;
  plan.corrupt = settings_.corrupt;
  plan.dropout = settings_.dropout;
  plan.least = static_cast<std::size_t>(common.least_clients);
  plan.scale.clip = common.clip;
  plan.scale.norm = common.norm;
  plan.scale.bits = static_cast<unsigned>(common.bits);
  plan.scale.most_weight = weighting == Weighting::kEqual ? 1 : static_cast<std::uint64_t>(common.most_examples);
  plan.scale.clients = clients;
  plan.scale.checksum = plan.protocol != SumProtocol::kLightSecAgg;
  plan.size = 1;
  plan.weighting = weighting;
  return plan;
}

SumPlan SecureMean::plan_for(const AggregationInput& input) const {
  SumPlan plan = plan_for(input.cohort.size(), input.weighting);
  plan.tensors = input.tensors;
  plan.size = input.size;
  plan.seed = input.seed & ((std::uint64_t{1} << 53) - 1);
  return plan;
}

std::string SecureMean::refusal(std::size_t clients_per_round, Weighting weighting) const {
  try {
    const SumPlan plan = plan_for(clients_per_round, weighting);
    return plan.parameters(InputCodec(plan).length()).mistake();
  } catch (const ConfigError& error) {
    return error.what();
  }
}

void SecureMean::prepare(const AggregationSetting& setting) {
  const SumPlan plan = plan_for(static_cast<std::size_t>(setting.clients_per_round), Weighting::kEqual);
  const SumParameters parameters = plan.parameters(1);
  const bool modelled = settings_.common.mode == SecureMeanConfig::Mode::kCost;
  if (plan.protocol == SumProtocol::kLightSecAgg) {
    Log("secure").info("light_secagg ({}{}): of {} clients {} may collude and {} may vanish", name_of(parameters.trust),
                       modelled ? ", modelled" : "", plan.scale.clients, parameters.colluding,
                       plan.scale.clients - parameters.threshold);
    return;
  }
  Log("secure").info("{} ({}{}): {} neighbours per client, threshold {}, {} of them may collude",
                     name_of(plan.protocol), name_of(parameters.trust), modelled ? ", modelled" : "",
                     std::min(parameters.neighbours, plan.scale.clients - 1), parameters.threshold,
                     parameters.colluding);
}

std::size_t SecureMean::vanishes_before(const AggregationInput& input, ClientId client) const {
  if (settings_.common.vanish <= 0) return kStays;
  RandomStream stream({.seed = input.seed, .purpose = "vanish", .round = input.request.round, .client = client});
  return stream.uniform() < settings_.common.vanish ? stream.below(steps()) : kStays;
}

Aggregated SecureMean::aggregate(AggregationInput input) {
  check(!input.look, "a secure sum shows no updates");
  for (const Member& member : input.cohort) {
    if (member.times != 1) throw ConfigError("a secure sum counts a client once; select without replacement");
  }
  if (input.cohort.size() < least_updates()) {
    std::vector<ClientReport> reports(input.cohort.size());
    for (ClientReport& report : reports) {
      report.failure = fmt::format("a secure sum needs {} clients, and {} were asked", least_updates(), reports.size());
    }
    return abandoned_sum(input, std::move(reports), "too few clients were selected");
  }
  if (settings_.common.mode == SecureMeanConfig::Mode::kCost) return modelled_sum(input);
  return settings_.server == Trust::kActive ? active_sum(input) : real_sum(input, {});
}

std::map<ClientId, PublicKey> SecureMean::identify(const AggregationInput& input,
                                                   std::vector<ClientReport>& reports) const {
  std::vector<ClientId> clients;
  for (const Member& member : input.cohort) clients.push_back(member.client);
  std::map<ClientId, PublicKey> identities;
  for (Reply& reply : input.federation.ask(clients, {.procedure = kIdentifyProcedure, .round = input.request.round})) {
    ClientReport& report = reports.at(reply.slot);
    report.cost = reply.cost;
    report.left_out = reply.left_out;
    report.failure = reply.failure;
    if (!reply.ok()) continue;
    try {
      const ByteView bytes = bytes_of(reply.body, kMessageField);
      PublicKey key;
      if (bytes.size() != key.size()) throw DataError("its identity has another length");
      std::copy(bytes.begin(), bytes.end(), key.begin());
      identities[reply.client] = key;
      reply.accept();  // an identity is for good, whatever becomes of this sum
    } catch (const DataError& error) {
      report.failure = error.what();
    }
  }
  return identities;
}

Aggregated SecureMean::active_sum(AggregationInput& input) const {
  std::vector<ClientReport> reports(input.cohort.size());
  for (ClientReport& report : reports) report.failure = "it did not reply";
  const std::map<ClientId, PublicKey> identities = identify(input, reports);
  std::vector<Member> known;
  std::vector<std::size_t> slots;
  for (std::size_t slot = 0; slot < input.cohort.size(); ++slot) {
    if (!identities.contains(input.cohort[slot].client)) continue;
    known.push_back(input.cohort[slot]);
    slots.push_back(slot);
  }
  AggregationInput part = input;
  part.cohort = known;
  if (known.size() < least_updates()) {
    const std::string why = fmt::format("only {} clients said who they are", known.size());
    for (const std::size_t slot : slots) reports[slot].failure = "the secure sum was abandoned: " + why;
    return abandoned_sum(input, std::move(reports), why);
  }
  Aggregated result = real_sum(part, identities);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Cost before = reports[slots[i]].cost;
    reports[slots[i]] = std::move(result.clients.at(i));
    Cost& cost = reports[slots[i]].cost;
    cost.seconds += before.seconds;
    cost.network_seconds += before.network_seconds;
    cost.joules += before.joules;
    cost.bytes_down += before.bytes_down;
    cost.bytes_up += before.bytes_up;
  }
  result.clients = std::move(reports);
  return result;
}

Aggregated SecureMean::real_sum(AggregationInput& input, const std::map<ClientId, PublicKey>& identities) const {
  const SumPlan plan = plan_for(input);
  const InputCodec codec(plan);
  const std::vector<ClientId> cohort = sorted_ids(input.cohort);
  Request first = std::move(input.request);
  input.request.round = first.round;
  first.body.texts[kInnerField] = std::exchange(first.procedure, kBeginProcedure);
  plan.write(first.body);
  Digest nonce;
  fill_random(nonce);
  first.body.tensors[kNonceField] = tensor_of(nonce);
  at::Tensor ids = at::empty({static_cast<std::int64_t>(cohort.size())}, at::kLong);
  std::copy(cohort.begin(), cohort.end(), ids.data_ptr<std::int64_t>());
  first.body.tensors[kCohortField] = ids;

  if (!identities.empty()) first.body.tensors[kIdentitiesField] = keys_tensor(identities);

  const unsigned threads = std::max(1U, std::thread::hardware_concurrency());
  SumSession session = session_of(plan, cohort, nonce, digest_of(first));
  session.identities = identities;
  const auto host = make_host(plan, std::move(session), threads);
  SumRounds rounds(input, *host,
                   [&](ClientId client, std::size_t step) { return step < vanishes_before(input, client); });
  std::optional<InputCodec::Sums> sums;
  const auto abandoned = rounds.run(std::move(first), [&]() -> std::string {
    auto decoded = codec.decode(host->sum(), host->survivors().size());
    if (!decoded) return decoded.failure().message;
    sums = std::move(decoded).value();
    return "";
  });
  std::vector<ClientReport> reports = rounds.take_reports(abandoned);
  if (abandoned) return abandoned_sum(input, std::move(reports), *abandoned);

  Aggregated result;
  for (const at::Tensor& mean : sums->means) result.means.push_back(mean.to(input.device));
  // Only sums are known: everybody's share is the same.
  const auto survivors = static_cast<double>(host->survivors().size());
  for (ClientReport& report : reports) {
    if (!report.failure.empty()) continue;
    report.weight = sums->facts.weight / survivors;
    report.examples = sums->facts.examples / survivors;
    report.steps = sums->facts.steps / survivors;
    report.seconds = sums->facts.seconds / survivors;
    report.loss = sums->facts.loss;
  }
  result.clients = std::move(reports);
  result.numbers = {{"secure_clients", survivors}, {"secure_cut", sums->cut}};
  return result;
}

Aggregated SecureMean::modelled_sum(AggregationInput& input) const {
  const SumPlan plan = plan_for(input);
  const InputCodec codec(plan);
  const SumParameters parameters = plan.parameters(codec.length());
  const std::uint64_t round = input.request.round;
  const auto alive = [&](ClientId client, std::size_t step) { return step < vanishes_before(input, client); };
  std::vector<ClientReport> reports(input.cohort.size());
  std::vector<Member> staying;
  std::vector<std::size_t> slots;
  for (std::size_t slot = 0; slot < input.cohort.size(); ++slot) {
    reports[slot].failure = "it vanished (simulated)";
    reports[slot].left_out = true;
    if (!alive(input.cohort[slot].client, 2)) continue;
    staying.push_back(input.cohort[slot]);
    slots.push_back(slot);
  }
  const std::string lost = modelled_failure(plan, parameters, sorted_ids(input.cohort), alive, mix(plan.seed, round));
  if (!lost.empty()) {
    for (const std::size_t slot : slots) reports[slot] = {.failure = "the secure sum was abandoned: " + lost};
    return abandoned_sum(input, std::move(reports), lost);
  }

  RingVector sum(plan.ring_bits(), codec.length());
  AggregationInput plain = input;
  plain.cohort = staying;
  std::vector<std::string> faults(staying.size());
  UpdateReader reader;
  reader.use = [&](std::size_t slot, const std::vector<double>& weights, const std::vector<at::Tensor>& tensors) {
    WorkFacts facts;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (!plan.tensors[i].equal) facts.weight = weights[i];
    }
    auto part = codec.encode(tensors, facts, staying[slot].client, round);
    if (part) {
      sum.add(part.value());
    } else {
      faults[slot] = part.failure().message;
    }
  };
  reader.skip = [](std::size_t) {};
  std::vector<ClientReport> plain_reports = read_updates(plain, reader);
  const SumCost cost = cost_of(plan, parameters);
  const double update_bytes = 4 * static_cast<double>(plan.tensors.size()) * static_cast<double>(plan.size);
  std::size_t used = 0;
  for (std::size_t i = 0; i < staying.size(); ++i) {
    ClientReport& report = reports[slots[i]];
    report = std::move(plain_reports[i]);
    if (report.failure.empty() && !faults[i].empty()) report = {.failure = faults[i], .cost = report.cost};
    if (!report.failure.empty()) continue;
    add_cost(report.cost, cost, update_bytes);
    report.weight = std::min(report.weight, static_cast<double>(plan.scale.most_weight));
    ++used;
  }
  if (used < parameters.least_cohort) {
    const std::string why = fmt::format("only {} inputs arrived", used);
    for (ClientReport& report : reports) {
      if (report.failure.empty()) report = {.failure = "the secure sum was abandoned: " + why, .cost = report.cost};
    }
    return abandoned_sum(input, std::move(reports), why);
  }
  auto sums = codec.decode(sum, used);
  if (!sums) return abandoned_sum(input, std::move(reports), sums.failure().message);
  Aggregated result;
  for (const at::Tensor& mean : sums.value().means) result.means.push_back(mean.to(input.device));
  result.clients = std::move(reports);
  const auto clients = static_cast<double>(used);
  result.numbers = {{"secure_clients", clients},
                    {"secure_cut", sums.value().cut},
                    {"secure_bytes_up", clients * cost.bytes_up},
                    {"secure_bytes_down", clients * cost.bytes_down}};
  return result;
}

namespace {

template <typename Config>
SecureMeanSettings sparse_settings(SumProtocol protocol, const Config& config) {
  return {protocol, config, config.corrupt, config.dropout, Trust::kSemiHonest};
}

const Registration<Aggregations, SecAggConfig> kRegisteredSecAgg{
    "secagg", "a secure sum over the complete graph (Bonawitz et al. 2017): the server learns only the mean",
    [](const SecAggConfig& config) {
      return std::make_unique<SecureMean>(SecureMeanSettings{SumProtocol::kSecAgg, config, 0.1, 0.2, config.server});
    },
    SecureMean::kTraits};
const Registration<Aggregations, SecAggPlusConfig> kRegisteredSecAggPlus{
    "secagg_plus", "a secure sum over a sparse random graph (Bell et al. 2020): the server learns only the mean",
    [](const SecAggPlusConfig& config) {
      SecureMeanSettings settings = sparse_settings(SumProtocol::kSecAggPlus, config);
      settings.server = config.server;
      return std::make_unique<SecureMean>(settings);
    },
    SecureMean::kTraits};
const Registration<Aggregations, LightSecAggConfig> kRegisteredLightSecAgg{
    "light_secagg", "a secure sum with coded masks (So et al. 2022): dropouts cost the server nothing",
    [](const LightSecAggConfig& config) {
      return std::make_unique<SecureMean>(sparse_settings(SumProtocol::kLightSecAgg, config));
    },
    SecureMean::kTraits};

}  // namespace
}  // namespace chorus::inline secure_mean
