#include "algorithm/federated/fedbuff.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "algorithm/federated/mean.h"
#include "core/base/error.h"
#include "core/base/rng.h"

namespace chorus::inline federated {
namespace {

constexpr std::int64_t kFlightNumbers = 18;

at::Tensor doubles(const std::vector<double>& numbers) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(numbers.size())}, at::kDouble);
  std::copy(numbers.begin(), numbers.end(), tensor.data_ptr<double>());
  return tensor;
}

constexpr const char* kHold = "fedbuff/hold";
constexpr const char* kRelease = "fedbuff/release";
constexpr const char* kHeldUpdate = "fedbuff.update";
constexpr const char* kHeldFacts = "fedbuff.facts";
constexpr const char* kVersion = "fedbuff.version";      // of the model that is held, and of the one that is stepped
constexpr const char* kStaleness = "fedbuff.staleness";  // a
constexpr double kMostStaleness = 100, kLeastFactor = 1.0 / 32;
constexpr const char* kFactNames[] = {"examples", "batches", "steps", "seconds", "loss"};

}  // namespace

void FedBuffConfig::describe(ConfigVisitor& visitor) {
  visitor.field("buffer", buffer, "K: updates per server step").at_least(1);
  visitor.field("concurrency", concurrency, "M: clients that train at the same time; 0: clients_per_round").at_least(0);
  visitor.field("learning_rate", learning_rate, "of the server").above(0);
  visitor.field("staleness", staleness, "a of 1 / (1 + tau)^a, the weight of an update that is tau steps old")
      .at_least(0)
      .at_most(kMostStaleness);
}

bool FedBuff::later(const Flight& a, const Flight& b) {
  return a.arrival != b.arrival ? a.arrival > b.arrival : a.order > b.order;
}

// A secure sum shows no update, so clients hold theirs until they are summed.
bool FedBuff::holds(const RoundInput& input) const { return dynamic_cast<const Mean*>(&input.aggregation) == nullptr; }

Request FedBuff::request_for(const RoundInput& input, at::Tensor model) const {
  Request request{.procedure = holds(input) ? kHold : "train", .round = input.round};
  request.body.tensors["model"] = std::move(model);
  if (holds(input)) request.body.numbers[kVersion] = version_;
  return request;
}

// A transport copies a tensor whose storage somebody else holds. So each request gets a storage of its own, over memory
// that they share.
at::Tensor FedBuff::shared_model(const RoundInput& input) {
  if (!sent_.defined()) sent_ = input.model.detach().to(at::kCPU, input.model.scalar_type(), false, /*copy=*/true);
  return at::from_blob(
      sent_.data_ptr(), sent_.sizes(), [owner = sent_](void*) {}, sent_.options());
}

std::vector<ClientId> FedBuff::candidates(const RoundInput& input, std::size_t wanted) const {
  std::vector<ClientId> clients;
  for (const Member& member : input.cohort) {
    const bool flies = std::any_of(flights_.begin(), flights_.end(),
                                   [&](const Flight& flight) { return flight.client == member.client; });
    const bool trains = std::any_of(open_.begin(), open_.end(), [&](const Open& open) {
      return std::find(open.clients.begin(), open.clients.end(), member.client) != open.clients.end();
    });
    if (!flies && !trains) clients.push_back(member.client);
  }
  // The order must depend neither on the order of the cohort nor on the clients' ids.
  std::sort(clients.begin(), clients.end());
  RandomStream stream({.seed = input.seed, .purpose = "fedbuff", .round = input.round});
  stream.shuffle(std::span(clients));
  clients.resize(std::min(clients.size(), wanted));
  return clients;
}

FedBuff::Flight FedBuff::read(Reply& reply, const RoundInput& input, bool hold) {
  static const std::vector<AggregatedTensor> kTensors{{}};
  Flight flight;
  flight.cost = reply.cost;
  flight.left_out = reply.left_out ? 1 : 0;
  flight.held = hold ? 1 : 0;
  flight.failure = reply.failure;
  try {
    if (!hold && reply.ok()) {
      flight.failure = fault_of(reply, kTensors, input.model.size(0));
      if (flight.failure.empty()) flight.weight = weight_of(reply, input.weighting);
    }
  } catch (const DataError& error) {
    flight.failure = error.what();
  }
  if (!flight.failure.empty()) return flight;
  flight.accept = std::move(reply.on_accept);
  if (hold) return flight;
  flight.examples = reply.body.number("examples");
  flight.steps = reply.body.number("steps", 1);
  flight.loss = reply.body.number("loss", 0);
  flight.seconds = reply.body.number("seconds", 0);
  flight.update = reply.body.tensor("update");
  return flight;
}

std::deque<FedBuff::Flight> FedBuff::ask(const RoundInput& input, std::size_t wanted) {
  const std::vector<ClientId> clients = candidates(input, wanted);
  std::deque<Flight> flights(clients.size());
  if (clients.empty()) return flights;

  const Roster& roster = input.federation.roster();
  std::vector<std::size_t> by_size(clients.size());
  for (std::size_t i = 0; i < by_size.size(); ++i) by_size[i] = i;
  std::stable_sort(by_size.begin(), by_size.end(), [&](std::size_t a, std::size_t b) {
    return roster.size_of(clients[a]) > roster.size_of(clients[b]);
  });
  std::vector<ClientId> cohort;
  for (const std::size_t i : by_size) cohort.push_back(clients[i]);

  for (Reply& reply : input.federation.ask(cohort, request_for(input, input.model.clone()))) {
    Flight& flight = flights.at(by_size.at(reply.slot));
    flight = read(reply, input, holds(input));
    if (flight.accept) std::exchange(flight.accept, {})();
    if (flight.update.defined()) flight.update = flight.update.clone();  // kept over rounds
  }
  for (std::size_t i = 0; i < flights.size(); ++i) {
    flights[i].client = clients[i];
    flights[i].version = version_;
    flights[i].order = asked_++;
    flights[i].arrival = flights[i].cost.seconds;
  }
  return flights;
}

void FedBuff::take(Step& step, const RoundInput& input, Flight flight) const {
  const auto client = static_cast<ClientId>(flight.client);
  step.costs.push_back(flight.cost);
  if (flight.left_out != 0) step.result.emulated.left_out.push_back(client);
  if (!flight.failure.empty()) {
    step.result.failed.emplace_back(client, std::move(flight.failure));
    return;
  }
  const std::size_t slot = step.updates++;
  const double age = version_ - flight.version;
  step.staleness += age;
  if (flight.held != 0) {
    step.holders.push_back({client, 1});
    return;
  }
  const double weight = flight.weight * std::pow(1 + age, -config_.staleness);
  step.mean.add(slot, weight, flight.update.to(input.model.device()));
  step.weights += flight.weight;
  step.discounted += weight;
  step.result.examples += flight.examples;
  step.result.steps += flight.steps;
  step.result.seconds += flight.seconds;
  step.result.loss += flight.weight * flight.loss;
}

/// The K next arrivals on the emulated clock.
FedBuff::Step FedBuff::emulated_step(const RoundInput& input) {
  const auto most = config_.concurrency > 0 ? static_cast<std::size_t>(config_.concurrency) : input.cohort.size();
  const auto buffer = static_cast<std::size_t>(config_.buffer);
  const std::size_t room = most > flights_.size() ? most - flights_.size() : 0;
  std::deque<Flight> ready = ask(input, room + buffer - 1);
  Step step(std::min(buffer, flights_.size() + ready.size()), clock_);
  const auto start = [&] {
    if (ready.empty()) return;
    ready.front().arrival += step.now;
    flights_.push_back(std::move(ready.front()));
    ready.pop_front();
    std::push_heap(flights_.begin(), flights_.end(), later);
  };
  for (std::size_t i = 0; i < room; ++i) start();

  for (std::size_t arrived = 1; arrived <= buffer && !flights_.empty(); ++arrived) {
    std::pop_heap(flights_.begin(), flights_.end(), later);
    Flight flight = std::move(flights_.back());
    flights_.pop_back();
    step.now = std::max(step.now, flight.arrival);
    take(step, input, std::move(flight));
    if (arrived < buffer) start();
  }
  return step;
}

void FedBuff::ask_now(const RoundInput& input, std::span<const ClientId> clients) {
  if (clients.empty()) return;
  Request request = request_for(input, shared_model(input));
  request.background = true;
  asked_ += static_cast<double>(clients.size());
  Replies replies = input.federation.ask(clients, std::move(request));
  open_.push_back({{clients.begin(), clients.end()}, version_, clients.size(), std::move(replies)});
}

FedBuff::Flight FedBuff::next_arrival(const RoundInput& input) {
  for (;;) {
    for (auto open = open_.begin(); open != open_.end(); ++open) {
      if (!open->replies.ready()) continue;
      std::optional<Reply> reply = open->replies.next();
      check(reply.has_value(), "a request ended before all of its clients replied");
      Flight flight = read(*reply, input, holds(input));
      flight.client = reply->client;
      flight.version = open->version;
      std::erase(open->clients, reply->client);
      if (--open->left == 0) open_.erase(open);
      return flight;
    }
    input.federation.wait(1);
  }
}

/// The K next updates of clients in other processes, and the failures among them.
FedBuff::Step FedBuff::real_step(const RoundInput& input) {
  std::size_t training = 0;
  for (const Open& open : open_) training += open.left;
  const auto most = config_.concurrency > 0 ? static_cast<std::size_t>(config_.concurrency) : input.cohort.size();
  const auto buffer = static_cast<std::size_t>(config_.buffer);
  const std::vector<ClientId> all = candidates(input, input.cohort.size());
  std::span<const ClientId> waiting(all);
  const auto start = [&](std::size_t count) {
    count = std::min(count, waiting.size());
    ask_now(input, waiting.first(count));
    waiting = waiting.subspan(count);
  };
  Step step(std::min(buffer, training + all.size()), clock_);
  start(most > training ? most - training : 0);

  std::size_t arrived = 0;
  std::vector<std::function<void()>> accepts;  // of replies that count only if there are enough
  while (step.updates < buffer && !open_.empty()) {
    Flight flight = next_arrival(input);
    ++arrived;
    if (flight.accept) accepts.push_back(std::move(flight.accept));
    take(step, input, std::move(flight));
    if (step.updates >= input.least) {
      for (const auto& accept : accepts) accept();
      accepts.clear();
    }
    if (step.updates < buffer) start(1);
  }
  if (step.updates < std::max<std::size_t>(input.least, 1)) {
    const auto& failed = step.result.failed;
    throw TooFewReplies(fmt::format("round {}: only {} of {} clients sent an update, and a step needs {}{}",
                                    input.round, step.updates, arrived, std::max<std::size_t>(input.least, 1),
                                    failed.empty() ? "" : "; the last: " + failed.back().second));
  }
  return step;
}

RoundResult FedBuff::round(const RoundInput& input) {
  Step step = input.federation.real_time() ? real_step(input) : emulated_step(input);
  RoundResult result = std::move(step.result);
  result.loss = step.weights > 0 ? result.loss / step.weights : std::nan("");
  result.numbers["staleness"] = step.updates > 0 ? step.staleness / static_cast<double>(step.updates) : 0;
  auto under_way = static_cast<double>(flights_.size());
  for (const Open& open : open_) under_way += static_cast<double>(open.left);
  result.numbers["in_flight"] = under_way;
  result.emulated.totals = cost_of_asking(step.costs);
  result.emulated.totals.seconds = step.now - clock_;
  clock_ = step.now;
  if (!step.holders.empty()) {
    RoundResult summed = sum_held(input, step.holders);
    clock_ += summed.emulated.totals.seconds;
    result.examples = summed.examples;
    result.steps = summed.steps;
    result.seconds = summed.seconds;
    result.loss = summed.loss;
    result.failed.insert(result.failed.end(), summed.failed.begin(), summed.failed.end());
    result.numbers.merge(summed.numbers);
    const EmulatedRound& sum = summed.emulated;
    result.emulated.left_out.insert(result.emulated.left_out.end(), sum.left_out.begin(), sum.left_out.end());
    result.emulated.totals += sum.totals;
  } else if (const at::Tensor mean = step.mean.result(); mean.defined()) {
    input.model.add_(mean, config_.learning_rate * (step.discounted / step.weights));
  }
  ++version_;
  sent_.reset();
  return result;
}

RoundResult FedBuff::sum_held(const RoundInput& input, const std::vector<Member>& holders) const {
  RoundInput part = input;
  part.cohort = holders;
  part.enough = 0;
  Request request{.procedure = kRelease, .round = input.round};
  request.body.numbers = {{kVersion, version_}, {kStaleness, config_.staleness}};
  Collected collected = collect(part, std::move(request));
  if (collected.means[0].defined()) input.model.add_(collected.means[0], config_.learning_rate);
  return std::move(collected.result);
}

std::vector<double> FedBuff::numbers_of(const Flight& flight) {
  const Cost& cost = flight.cost;
  return {flight.client, flight.version,  flight.order,   flight.arrival, flight.weight,        flight.examples,
          flight.steps,  flight.loss,     flight.seconds, cost.seconds,   cost.compute_seconds, cost.network_seconds,
          cost.joules,   cost.bytes_down, cost.bytes_up,  cost.memory,    flight.left_out,      flight.held};
}

FedBuff::Flight FedBuff::flight_of(const double* n) {
  Flight flight{n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8]};
  flight.cost = {n[9], n[10], n[11], n[12], n[13], n[14], n[15]};
  flight.left_out = n[16];
  flight.held = n[17];
  return flight;
}

std::map<std::string, at::Tensor> FedBuff::state() const {
  std::vector<double> numbers;
  std::vector<at::Tensor> updates;
  std::string failures;  // one line per failure
  for (const Flight& flight : flights_) {
    const std::vector<double> row = numbers_of(flight);
    numbers.insert(numbers.end(), row.begin(), row.end());
    if (flight.update.defined()) updates.push_back(flight.update);
    std::string line = flight.failure;
    std::replace(line.begin(), line.end(), '\n', ' ');
    failures += line + '\n';
  }
  std::map<std::string, at::Tensor> state{{"clock", doubles({clock_, version_, asked_})},
                                          {"flights", doubles(numbers)}};
  at::Tensor text = at::empty({static_cast<std::int64_t>(failures.size())}, at::kByte);
  std::copy(failures.begin(), failures.end(), text.data_ptr<std::uint8_t>());
  state["failures"] = text;
  if (!updates.empty()) state["updates"] = at::stack(updates);
  return state;
}

void FedBuff::restore(const std::map<std::string, at::Tensor>& state) {
  flights_.clear();
  sent_.reset();
  if (state.empty()) return;
  const auto get = [&](const char* name, at::ScalarType type) {
    const auto found = state.find(name);
    if (found == state.end()) throw DataError(std::string("the checkpoint has no \"") + name + "\" of fedbuff");
    return found->second.to(at::kCPU, type).contiguous();
  };
  const at::Tensor clock = get("clock", at::kDouble), numbers = get("flights", at::kDouble);
  const at::Tensor text = get("failures", at::kByte);
  if (clock.numel() != 3 || numbers.numel() % kFlightNumbers != 0) throw DataError("fedbuff's checkpoint is damaged");
  clock_ = clock.data_ptr<double>()[0];
  version_ = clock.data_ptr<double>()[1];
  asked_ = clock.data_ptr<double>()[2];
  const std::string failures(text.data_ptr<std::uint8_t>(), text.data_ptr<std::uint8_t>() + text.numel());
  std::size_t line = 0;
  std::int64_t update = 0;
  const auto updates = state.find("updates");
  for (std::int64_t i = 0; i < numbers.numel() / kFlightNumbers; ++i) {
    Flight flight = flight_of(numbers.data_ptr<double>() + i * kFlightNumbers);
    const std::size_t end = failures.find('\n', line);
    if (end == std::string::npos) throw DataError("fedbuff's checkpoint is damaged");
    flight.failure = failures.substr(line, end - line);
    line = end + 1;
    if (flight.failure.empty() && flight.held == 0) {
      if (updates == state.end() || update >= updates->second.size(0)) {
        throw DataError("fedbuff's checkpoint is damaged: an update is missing");
      }
      flight.update = updates->second[update++].clone();
    }
    flights_.push_back(std::move(flight));
  }
  std::make_heap(flights_.begin(), flights_.end(), later);
}

namespace {

/// Trains, and keeps the update to itself.
class HoldProcedure : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override {
    const std::vector<Answer> trained = train_from_model(request, bench).answers;
    std::vector<Answer> answers(trained.size());
    for (std::size_t i = 0; i < trained.size(); ++i) {
      answers[i].failure = trained[i].failure;
      if (!trained[i].failure.empty()) continue;
      std::vector<double> facts;
      for (const char* name : kFactNames) facts.push_back(trained[i].body.number(name, 0));
      facts.push_back(request.body.number(kVersion));
      bench.state(i)[kHeldUpdate] = trained[i].body.tensor("update").clone();
      bench.state(i)[kHeldFacts] = doubles(facts);
    }
    return answers;
  }
};

/// What a client holds, times what it counts for. The request says the same to everybody and is hashed into the keys of
/// the sum, and a client works out its factor itself, so a server cannot give it one of its own.
class ReleaseProcedure : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override {
    const double version = request.body.number(kVersion), staleness = request.body.number(kStaleness);
    if (!(staleness >= 0 && staleness <= kMostStaleness)) {
      throw DataError(fmt::format("fedbuff's staleness is {}; it must be 0 to {}", staleness, kMostStaleness));
    }
    std::vector<Answer> answers;
    for (std::size_t i = 0; i < bench.clients().size(); ++i) {
      answers.push_back(release(bench.state(i), version, staleness));
    }
    return answers;
  }

 private:
  static Answer release(ClientState& state, double version, double staleness) {
    Answer answer;
    const auto update = state.find(kHeldUpdate), facts = state.find(kHeldFacts);
    if (update == state.end() || facts == state.end() ||
        facts->second.numel() != static_cast<std::int64_t>(std::size(kFactNames)) + 1) {
      answer.failure = "it holds no update";
      return answer;
    }
    const at::Tensor numbers = facts->second.to(at::kDouble).contiguous();
    const double age = version - numbers.data_ptr<double>()[std::size(kFactNames)];
    if (!(age >= 0)) {
      answer.failure = "its update is of a later model than this step's";
      return answer;
    }
    answer.body.tensors["update"] = update->second * std::max(kLeastFactor, std::pow(1 + age, -staleness));
    for (std::size_t n = 0; n < std::size(kFactNames); ++n) {
      answer.body.numbers[kFactNames[n]] = numbers.data_ptr<double>()[n];
    }
    state.erase(kHeldUpdate);
    state.erase(kHeldFacts);
    return answer;
  }
};

const ProcedureRegistration<HoldProcedure> kRegisteredHold{kHold, "train, and hold the update for a secure sum"};
const ProcedureRegistration<ReleaseProcedure> kRegisteredRelease{kRelease, "the update that is held, for a secure sum"};
const Registration<Algorithms, FedBuffConfig> kRegisteredFedBuff{
    "fedbuff",
    "asynchronous: a server step whenever K updates have arrived (Nguyen et al. 2022)",
    [](const FedBuffConfig& config) { return std::make_unique<FedBuff>(config); },
    {.own_mean = true, .asynchronous = true}};

}  // namespace
}  // namespace chorus::inline federated
