#include "algorithm/secure_mean/secure_mean.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

#include "algorithm/secure_mean/secure_procedures.h"
#include "algorithm/secure_mean/sum_rounds.h"
#include "core/base/error.h"
#include "core/console/log.h"

namespace chorus::inline secure_mean {
namespace {

constexpr double kMuchCut = 0.1;
constexpr std::size_t kStays = std::numeric_limits<std::size_t>::max();

// Two parts of a sum, one after the other.
void add(Cost& sum, const Cost& more) {
  sum.seconds += more.seconds;
  sum.compute_seconds += more.compute_seconds;
  sum.network_seconds += more.network_seconds;
  sum.joules += more.joules;
  sum.bytes_down += more.bytes_down;
  sum.bytes_up += more.bytes_up;
  sum.memory = std::max(sum.memory, more.memory);
}

}  // namespace

std::vector<ClientId> sorted_ids(std::span<const Member> cohort) {
  std::vector<ClientId> ids;
  for (const Member& member : cohort) ids.push_back(member.client);
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::string fault_of(SumPlan plan) {
  plan.keep = 1;  // positions take long to draw, and change nothing
  try {
    return plan.parameters(InputCodec(plan).length()).mistake();
  } catch (const ConfigError& error) {
    return error.what();
  }
}

namespace {

Aggregated no_sum(const AggregationInput& input, std::vector<ClientReport> reports, const std::string& why) {
  Log("secure").warning("round {}: {}{}", input.request.round, kAbandoned, why);
  Aggregated result;
  result.means.resize(input.tensors.size());
  result.clients = std::move(reports);
  return result;
}

// Nobody was asked.
Aggregated refused_sum(const AggregationInput& input, const std::string& why) {
  const ClientReport report{.failure = kAbandoned + why};
  return no_sum(input, std::vector<ClientReport>(input.cohort.size(), report), why);
}

}  // namespace

Aggregated abandoned_sum(const AggregationInput& input, std::vector<ClientReport> reports, const std::string& why) {
  if (input.federation.real_time()) {
    throw TooFewReplies(fmt::format("round {}: {}{}", input.request.round, kAbandoned, why));
  }
  return no_sum(input, std::move(reports), why);
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
  plan.noise = settings_.noise;
  plan.noise.bits = plan.scale.bits;
  plan.noise.clients = clients;
  return plan;
}

SumPlan SecureMean::plan_for(const AggregationInput& input) const {
  SumPlan plan = plan_for(input.cohort.size(), input.weighting);
  plan.tensors = input.tensors;
  plan.size = input.size;
  plan.seed = input.seed & ((std::uint64_t{1} << 53) - 1);
  plan.round = input.request.round;
  plan.keep = settings_.common.keep;
  // A version of the model (AdaFL's) has no word table that trains.
  if (input.size == whole_ && !tables_.empty()) plan.rare = static_cast<std::size_t>(settings_.common.rare_rows);
  return plan;
}

std::string SecureMean::refusal(std::size_t clients_per_round, Weighting weighting) const {
  if (settings_.common.keep < 1 && !masks()) return "keep needs the clients' memory; set keep: 1 or mode: real";
  if (settings_.common.rare_rows > 0 && settings_.server == Trust::kActive) return kNoRareRows;
  if (settings_.common.rare_rows > static_cast<std::int64_t>(clients_per_round)) {
    return "rare_rows would leave out every row; lower it";
  }
  return fault_of(plan_for(clients_per_round, weighting));
}

SumFloor SecureMean::sum_floor(const AggregationSetting& setting) const {
  const bool tables = setting.layout != nullptr && !word_tables(*setting.layout).empty();
  return {.clients = least_updates(), .rare = tables ? static_cast<std::size_t>(settings_.common.rare_rows) : 0};
}

void SecureMean::prepare(const AggregationSetting& setting) {
  if (setting.layout == nullptr) return;
  tables_ = word_tables(*setting.layout);
  whole_ = setting.layout->trainable_size();
  if (settings_.common.rare_rows > 0) check_rare_rows(*setting.layout);
}

void SecureMean::check_rare_rows(const Layout& layout) const {
  if (tables_.empty()) Log("secure").warning("rare_rows changes nothing: no word table is trained, so no row travels");
  const std::vector<ParamSpec>& all = layout.specs();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].trainable || !layout.storage().is_head_table(static_cast<int>(i))) continue;
    throw ConfigError(fmt::format(
        "aggregation.rare_rows: the output layer changes every row of {} in every step, so each client would seem to "
        "have all words; leave rare_rows out, or freeze that table",
        all[i].name));
  }
}

std::size_t SecureMean::vanishes_before(const AggregationInput& input, ClientId client) const {
  if (settings_.common.vanish <= 0) return kStays;
  RandomStream stream({.seed = input.seed, .purpose = "vanish", .round = input.request.round, .client = client});
  return stream.uniform() < settings_.common.vanish ? stream.below(steps() * (settings_.common.rare_rows > 0 ? 2 : 1))
                                                    : kStays;
}

Aggregated SecureMean::aggregate(AggregationInput input) {
  check(!input.look, "a secure sum shows no updates");
  for (const Member& member : input.cohort) {
    if (member.times != 1) throw ConfigError("a secure sum counts a client once; select without replacement");
  }
  if (input.cohort.size() < least_updates()) {
    return refused_sum(input,
                       fmt::format("it needs {} clients, and {} were selected", least_updates(), input.cohort.size()));
  }
  if (const std::string fault = fault_of(plan_for(input)); !fault.empty()) return refused_sum(input, fault);
  tell_terms(input);
  Aggregated result = settings_.common.mode == SecureMeanConfig::Mode::kCost ? modelled_sum(input)
                      : settings_.server == Trust::kActive                   ? active_sum(input)
                                                                             : real_sum(input, {});
  if (const auto cut = result.numbers.find("secure_cut"); cut != result.numbers.end()) warn_of_cut(cut->second);
  return result;
}

// With the sums, because an algorithm may sum over parts of a round's cohort, and the ring depends on the weights.
void SecureMean::tell_terms(const AggregationInput& input) {
  if (!told_.insert(input.cohort.size()).second) return;
  const SumPlan plan = plan_for(input);
  const SumParameters parameters = plan.parameters(1);
  const std::size_t clients = plan.scale.clients;
  const bool light = plan.protocol == SumProtocol::kLightSecAgg;
  const std::string whom =
      light ? fmt::format("of {} clients {} may collude and {} may vanish", clients, parameters.colluding,
                          clients - parameters.threshold)
            : fmt::format("{} neighbours per client, threshold {}, {} of them may collude",
                          std::min(parameters.neighbours, clients - 1), parameters.threshold, parameters.colluding);
  const std::string terms = fmt::format("{} ({}{}): {}", name_of(plan.protocol), name_of(parameters.trust),
                                        masks() ? "" : ", modelled", whom);
  const std::string ring =
      fmt::format("{} in a {} of {} bits: {} clients, {} bits per element, weights up to {}", name_of(plan.protocol),
                  light ? "field" : "ring", plan.capacity(), clients, plan.scale.bits, plan.scale.most_weight);
  const Log log("secure");
  for (const std::string& line : {terms, ring}) told_.size() == 1 ? log.info("{}", line) : log.debug("{}", line);
}

void SecureMean::warn_of_cut(double share) {
  if (share <= kMuchCut || std::exchange(cut_told_, true)) return;
  Log("secure").warning(
      "{:.0f} % of the elements of updates are cut off at clip {:g}; raise aggregation.clip (this is "
      "said once; the event of each round has secure_cut)",
      100 * share, settings_.common.clip);
}

std::map<std::string, double> SecureMean::numbers_of(const InputCodec::Sums& sums, std::size_t clients,
                                                     std::optional<double> rows_left_out) const {
  std::map<std::string, double> numbers{{"secure_clients", static_cast<double>(clients)}, {"secure_cut", sums.cut}};
  if (settings_.common.norm > 0) numbers["secure_shrunk"] = sums.shrunk;
  if (rows_left_out) numbers["secure_rows_left_out"] = *rows_left_out;
  return numbers;
}

PublicIdentities SecureMean::identify(const AggregationInput& input, std::vector<ClientReport>& reports) const {
  std::vector<ClientId> clients;
  for (const Member& member : input.cohort) clients.push_back(member.client);
  PublicIdentities identities;
  for (Reply& reply : input.federation.ask(clients, {.procedure = kIdentifyProcedure, .round = input.request.round})) {
    ClientReport& report = reports.at(reply.slot);
    report.cost = reply.cost;
    report.left_out = reply.left_out;
    report.failure = reply.failure;
    if (!reply.ok()) continue;
    try {
      identities[reply.client] = read_identity(bytes_of(reply.body, kMessageField));
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
  const PublicIdentities identities = identify(input, reports);
  std::vector<Member> known;
  std::vector<std::size_t> slots;
  for (std::size_t slot = 0; slot < input.cohort.size(); ++slot) {
    if (!identities.contains(input.cohort[slot].client)) continue;
    known.push_back(input.cohort[slot]);
    slots.push_back(slot);
  }
  AggregationInput part = input;
  part.cohort = known;
  std::string why;
  if (known.size() < least_updates()) why = fmt::format("only {} clients said who they are", known.size());
  if (why.empty()) why = fault_of(plan_for(part));
  if (!why.empty()) {
    for (const std::size_t slot : slots) reports[slot].failure = kAbandoned + why;
    return abandoned_sum(input, std::move(reports), why);
  }
  Aggregated result = real_sum(part, identities);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Cost before = reports[slots[i]].cost;
    reports[slots[i]] = std::move(result.clients.at(i));
    add(reports[slots[i]].cost, before);
  }
  result.clients = std::move(reports);
  return result;
}

/// A sum that can begin: what clients are asked, what they agree on by that, and the server's state machine.
struct SecureMean::Begun {
  SumPlan plan;
  InputCodec codec;
  Request first;
  Digest agreed;
  std::unique_ptr<SumHost> host;
};

SecureMean::Begun SecureMean::begin(const AggregationInput& input, Request first, const PublicIdentities& identities,
                                    const std::optional<Digest>& counted) const {
  const SumPlan plan = plan_for(input);
  Begun begun{plan, InputCodec(plan), std::move(first), {}, nullptr};
  Message& body = begun.first.body;
  SessionInput session;
  session.cohort = sorted_ids(input.cohort);
  fill_random(session.nonce);
  plan.write(body);
  body.tensors[kNonceField] = tensor_of(session.nonce);
  at::Tensor ids = at::empty({static_cast<std::int64_t>(session.cohort.size())}, at::kLong);
  std::copy(session.cohort.begin(), session.cohort.end(), ids.data_ptr<std::int64_t>());
  body.tensors[kCohortField] = ids;
  PublicIdentities known;
  for (const ClientId client : session.cohort) {
    if (const auto found = identities.find(client); found != identities.end()) known.insert(*found);
  }
  if (!known.empty()) body.tensors[kIdentitiesField] = identities_tensor(known);
  begun.agreed = session.agreed = counted ? agreed_after(*counted, begun.first) : digest_of(begun.first);
  session.length = plan.rare > 0 && !counted ? rows_of(tables_) : begun.codec.length();
  SumSession agreed = session_of(plan, std::move(session));
  agreed.identities = keys_of(known);
  begun.host = make_host(plan, std::move(agreed), std::max(1U, std::thread::hardware_concurrency()));
  return begun;
}

Aggregated SecureMean::real_sum(AggregationInput& input, const PublicIdentities& identities) const {
  Session session(input.federation);
  Request first = std::move(input.request);
  input.request.round = first.round;
  first.body.texts[kInnerField] = std::exchange(first.procedure, kBeginProcedure);
  std::vector<ClientReport> reports(input.cohort.size());
  std::vector<Member> members(input.cohort.begin(), input.cohort.end());
  std::vector<std::size_t> slots(members.size());
  for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = i;
  std::size_t step = 0;
  double rows_left_out = 0;
  std::optional<Digest> counted;  // what the sum of counts agreed on
  const auto alive = [&](ClientId client, std::size_t at) { return step + at < vanishes_before(input, client); };

  if (plan_for(input).rare > 0) {
    Begun counts = begin(input, std::move(first), identities, {});
    counted = counts.agreed;
    SumRounds rounds(session, input, *counts.host, alive);
    Bytes allowed(rows_of(tables_));
    const auto lost = rounds.run(
        std::move(counts.first),
        [&]() -> std::string {
          for (std::size_t row = 0; row < allowed.size(); ++row) {
            const std::uint64_t count = counts.host->sum().at(row);
            if (count > counts.host->survivors().size()) return "a count of rows is out of range";
            allowed[row] = static_cast<std::byte>(count >= counts.plan.rare ? 1 : 0);
            rows_left_out += count > 0 && count < counts.plan.rare ? 1 : 0;
          }
          return "";
        },
        false);
    reports = rounds.take_reports(lost);
    if (lost) return abandoned_sum(input, std::move(reports), *lost);
    members.clear();
    slots.clear();
    for (std::size_t slot = 0; slot < reports.size(); ++slot) {
      if (!reports[slot].failure.empty()) continue;
      members.push_back(input.cohort[slot]);
      slots.push_back(slot);
    }
    AggregationInput left = input;
    left.cohort = members;
    if (const std::string fault = fault_of(plan_for(left)); !fault.empty()) {
      for (const std::size_t slot : slots) reports[slot] = {.failure = kAbandoned + fault, .cost = reports[slot].cost};
      return abandoned_sum(input, std::move(reports), fault);
    }
    first = {.procedure = kValuesProcedure, .round = input.request.round};
    first.body.tensors[kRowsField] = tensor_of(allowed);
    step = steps();
  }

  AggregationInput part = input;
  part.cohort = members;
  Begun values = begin(part, std::move(first), identities, counted);
  const auto& host = values.host;
  SumRounds rounds(session, part, *host, alive);
  std::optional<InputCodec::Sums> sums;
  const auto abandoned = rounds.run(std::move(values.first), [&]() -> std::string {
    auto decoded = values.codec.decode(host->sum(), host->survivors().size());
    if (!decoded) return decoded.failure().message;
    sums = std::move(decoded).value();
    return "";
  });
  std::vector<ClientReport> last = rounds.take_reports(abandoned);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Cost before = reports[slots[i]].cost;
    reports[slots[i]] = std::move(last[i]);
    add(reports[slots[i]].cost, before);
  }
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
  result.numbers =
      numbers_of(*sums, host->survivors().size(), values.plan.rare > 0 ? std::optional(rows_left_out) : std::nullopt);
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
      return std::make_unique<SecureMean>(
          SecureMeanSettings{.protocol = SumProtocol::kSecAgg, .common = config, .server = config.server});
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
