#include "algorithm/federated/round_loop.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <set>

#include "algorithm/federated/collect.h"
#include "algorithm/federated/scoring.h"
#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/console/log.h"

namespace chorus::inline federated {
namespace {

class RoundLoop {
 public:
  RoundLoop(const RoundLoopParts& parts, const RoundLoopConfig& config, RoundLoopState& state)
      : parts_(parts), config_(config), state_(state) {}

  RoundLoopEnd run() {
    if (state_.rounds_to_target) return RoundLoopEnd::kTargetReached;  // resumed after its last round
    if (state_.targets.empty()) {
      for (const double target : config_.targets) state_.targets.push_back({target});
    }
    // Where the curves begin.
    const bool global = !parts_.traits.personal && !parts_.traits.partial;
    if (state_.round == 0 && config_.evaluate_every > 0 && global) evaluate();
    for (std::int64_t round = std::max(state_.round + 1, config_.first_round); round <= config_.last_round; ++round) {
      if (parts_.aggregation.exhausted()) return end_of_budget(round);
      if (parts_.before) parts_.before(round);
      const RoundResult result = train(round);
      state_.round = round;
      const bool last = round == config_.last_round;
      const bool stop = parts_.stop && parts_.stop();
      const bool due = config_.evaluate_every > 0 && (round - config_.first_round + 1) % config_.evaluate_every == 0;
      if (due || last) evaluate();
      const bool reached = state_.rounds_to_target.has_value();
      if (parts_.show) parts_.show(state_, result);
      if (parts_.save) parts_.save(state_, last || stop || reached);
      if (reached) return RoundLoopEnd::kTargetReached;
      if (stop && !last) return RoundLoopEnd::kStopped;
    }
    if (!first_failure_.empty() && !anything_used_ && state_.examples == 0) {
      throw DataError(
          fmt::format("no client's reply could be used in any round, so nothing was trained: {}; correct the "
                      "configuration or the clients' data",
                      first_failure_));
    }
    return RoundLoopEnd::kFinished;
  }

 private:
  RoundLoopEnd end_of_budget(std::int64_t round) {
    Log("round").warning("round {} would exceed the privacy budget, so the run ends before it", round);
    evaluate();
    if (parts_.save && state_.round > 0) parts_.save(state_, true);
    return RoundLoopEnd::kBudgetSpent;
  }

  std::vector<Member> select(std::int64_t round) {
    SelectionContext context;
    // A copy: clients may join or leave while the selector asks for losses.
    const auto now = parts_.federation.roster().sizes();
    std::vector<double> sizes(now.begin(), now.end());
    for (const ClientId client : config_.newcomers) sizes.at(client) = 0;
    context.sizes = sizes;
    if (config_.emulation) context.seconds = state_.emulated.seconds;
    // Asking more than needed is a wish; needing more than there are is an error of the selector's.
    context.count = config_.clients_per_round;
    context.population = config_.population;
    const std::size_t most = parts_.selector.most(context);
    if (config_.shrink) context.count = std::clamp<std::size_t>(most, 1, context.count);
    context.count = std::max(context.count, std::min(asked_per_round(), most));
    context.seed = config_.seed;
    context.round = static_cast<std::uint64_t>(round);
    context.losses = [&](std::span<const ClientId> clients) { return losses(clients, context.round); };
    const std::vector<ClientId> drawn = parts_.selector.select(context);
    if (config_.shrink) parts_.coverage.admit(sizes);
    parts_.coverage.add(drawn);
    std::map<ClientId, double> times;
    for (const ClientId client : drawn) times[client] += 1;
    std::vector<Member> cohort;
    for (const auto& [client, count] : times) cohort.push_back({client, count});
    return cohort;
  }

  std::size_t asked_per_round() const {
    const double factor = config_.emulation ? config_.emulation->over_selection : 1;
    return static_cast<std::size_t>(std::ceil(factor * static_cast<double>(config_.clients_per_round) - 1e-9));
  }

  std::vector<double> losses(std::span<const ClientId> clients, std::uint64_t round) {
    std::vector<double> result(clients.size(), std::nan(""));
    std::vector<Cost> costs(clients.size());
    Missing missing{.what = "loss"};
    for (Reply& reply : parts_.federation.ask(clients, at_variant(loss_request(state_.model, round)))) {
      costs.at(reply.slot) = reply.cost;
      if (reply.ok()) {
        result.at(reply.slot) = reply.body.number("loss", std::nan(""));
      } else {
        missing.add(reply);
      }
    }
    missing.log(round, clients.size());
    selection_ += cost_of_asking(costs);
    return result;
  }

  // Clients that did not say what the loop asked them.
  struct Missing {
    const char* what;
    std::size_t count = 0;
    std::string first = {};

    void add(const Reply& reply) {
      if (count++ == 0) first = fmt::format("client {}: {}", reply.client, reply.failure);
    }
    void log(std::uint64_t round, std::size_t asked) const {
      if (count == 0) return;
      Log("round").info("round {}: the {} of {} of {} clients is left out; {}", round, what, count, asked, first);
    }
  };

  // A request about the model becomes one about the version that is used now.
  Request at_variant(Request request) const {
    const Variant variant = parts_.algorithm.variant();
    if (parts_.variants == nullptr || variant == Variant{}) return request;
    request.body.tensors["model"] = parts_.variants->take(variant, state_.model);
    write_variant(variant, request.body);
    return request;
  }

  double main_score(const at::Tensor& model, const Variant& variant) {
    const Scores scores = parts_.scorer.score(model, variant);
    return (config_.higher_is_better ? 1 : -1) * scores.at(config_.metric);
  }

  RoundResult train(std::int64_t round) {
    const auto begin = std::chrono::steady_clock::now();
    const Traffic before = parts_.federation.traffic();
    selection_ = {};
    const std::vector<Member> cohort = select(round);
    const auto number = static_cast<std::uint64_t>(round);
    const auto rounds = static_cast<std::uint64_t>(config_.rounds);
    RoundResult result;
    if (!cohort.empty() || parts_.aggregation.answers_for_nobody()) {
      RoundInput input{parts_.federation, parts_.aggregation, cohort, state_.model, number, rounds, config_.seed};
      input.weighting = config_.weighting;
      input.phase = config_.phase;
      input.least = config_.least;
      input.variants = parts_.variants;
      input.split = parts_.split;
      if (config_.emulation && config_.emulation->over_selection > 1) input.enough = config_.clients_per_round;
      input.judge = [&](const at::Tensor& model, const Variant& variant) { return main_score(model, variant); };
      const std::unique_ptr<Workbench> bench = parts_.server_bench ? parts_.server_bench(number) : nullptr;
      input.server = bench.get();
      result = parts_.algorithm.round(input);
    }
    const double seconds = seconds_since(begin);
    const Traffic after = parts_.federation.traffic();
    if (config_.emulation && cohort.empty()) result.emulated.totals.seconds = config_.emulation->idle_seconds;
    result.emulated.totals += selection_;
    state_.emulated += result.emulated.totals;
    state_.examples += result.examples;
    state_.seconds += seconds;
    state_.bytes_up += static_cast<double>(after.up - before.up);
    state_.bytes_down += static_cast<double>(after.down - before.down);

    note_use(cohort, result);
    const std::vector<ClientId>& left_out = result.emulated.left_out;
    if (!left_out.empty() && result.examples == 0) {
      Log("round").warning("round {}: no answer could be used, so the model stays; of client {}: {}", round,
                           result.failed.front().first, result.failed.front().second);
    }
    for (const auto& [client, why] : result.failed) {
      if (std::find(left_out.begin(), left_out.end(), client) != left_out.end()) {
        Log("round").debug("round {}: client {} is left out: {}", round, client, why);
        continue;
      }
      Log("round").warning("round {}: client {} is left out: {}", round, client, why);
      parts_.tracker.record({"client_failed", round, {{"client", client}}, {{"reason", why}}});
    }
    Event event{"round",
                round,
                {{"clients", static_cast<double>(cohort.size())},
                 {"examples", result.examples},
                 {"steps", result.steps},
                 {"loss", result.loss},
                 {"seconds", seconds},
                 {"training_seconds", result.seconds},
                 {"bytes_up", static_cast<double>(after.up - before.up)},
                 {"bytes_down", static_cast<double>(after.down - before.down)},
                 {"failed", static_cast<double>(result.failed.size())},
                 {"devices", static_cast<double>(parts_.coverage.distinct())}}};
    event.numbers.insert(result.numbers.begin(), result.numbers.end());
    if (config_.emulation) {
      event.numbers.merge(emulated_numbers(result.emulated.totals));
      event.numbers["left_out"] = static_cast<double>(left_out.size());
    }
    if (parts_.numbers) event.numbers.merge(parts_.numbers());
    parts_.tracker.record(event);
    return result;
  }

  void note_use(const std::vector<Member>& cohort, const RoundResult& result) {
    // Devices of an emulation may all be too slow.
    const std::vector<ClientId>& late = result.emulated.left_out;
    std::set<ClientId> failed;
    for (const auto& [client, why] : result.failed) {
      failed.insert(client);
      if (first_failure_.empty() && std::find(late.begin(), late.end(), client) == late.end())
        first_failure_ = fmt::format("round {}, client {}: {}", state_.round + 1, client, why);
    }
    for (const Member& member : cohort) anything_used_ = anything_used_ || !failed.contains(member.client);
  }

  static std::map<std::string, double> emulated_numbers(const EmulatedTotals& totals) {
    return {{"emulated_seconds", totals.seconds},
            {"emulated_joules", totals.joules},
            {"client_joules", totals.client_joules},
            {"client_bytes", totals.client_bytes}};
  }

  void evaluate() {
    const auto begin = std::chrono::steady_clock::now();
    if (parts_.traits.personal) {
      state_.last = parts_.scorer.pooled(ask_clients(About::kLocalOnShared));
    } else if (parts_.traits.partial) {
      state_.last = parts_.scorer.pooled(ask_clients(About::kOwn));
    } else {
      state_.last = parts_.scorer.score(state_.model, parts_.algorithm.variant());
    }
    const double scoring = seconds_since(begin);
    Event event{"evaluation", state_.round, overall(state_.last), {{"split", "test"}}};
    event.numbers["seconds"] = scoring;
    if (config_.emulation) event.numbers.merge(emulated_numbers(state_.emulated));
    parts_.tracker.record(event);
    if (parts_.traits.personal || parts_.traits.partial) tell_of_missing_tests();
    if (config_.per_client) {
      const auto asked = std::chrono::steady_clock::now();
      const bool own = parts_.traits.personal || parts_.traits.partial || parts_.traits.any_network;
      const Scorer::ClientTotals totals = ask_clients(own ? About::kOwn : About::kGlobal);
      Scores pooled = parts_.scorer.pooled(totals);
      pooled["seconds"] = seconds_since(asked);
      if (missing_scores_ > 0) pooled["left_out"] = static_cast<double>(missing_scores_);
      record("clients", pooled);
      state_.deciles = parts_.scorer.deciles(totals);
      for (const ClientGroupScores& decile : state_.deciles) record(decile.name, decile.scores);
      record_clients(parts_.scorer.by_client(totals));
      if (parts_.traits.own_models && !own) record("own models", parts_.scorer.pooled(ask_clients(About::kOwn)));
    }
    const double seconds = seconds_since(begin);
    state_.seconds += seconds;
    state_.evaluation_seconds += seconds;
    judge();
  }

  // Clients score models of their own, on examples of their own where the server has none for them.
  void tell_of_missing_tests() {
    const auto examples = state_.last.find("examples");
    if (told_of_missing_tests_ || examples == state_.last.end() || examples->second > 0) return;
    told_of_missing_tests_ = true;
    Log("round").warning(
        "no client has test examples, so nobody scores the clients' own models; give every client some (`chorus join "
        "--test FILE`)");
  }

  static double seconds_since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  // Scores of single classes ("f1/sport") are for the summary, not for every line of the log.
  static Scores overall(Scores scores) {
    std::erase_if(scores, [](const auto& entry) { return entry.first.find('/') != std::string::npos; });
    return scores;
  }

  void record(const std::string& split, const Scores& scores) {
    parts_.tracker.record({"evaluation", state_.round, overall(scores), {{"split", split}}});
  }

  // The main score of every client, or of some of many clients, evenly drawn from their list.
  void record_clients(const std::vector<ClientGroupScores>& clients) {
    constexpr std::size_t kMost = 500;
    Event event{"client_scores", state_.round};
    const std::size_t shown = std::min(clients.size(), kMost);
    for (std::size_t i = 0; i < shown; ++i) {
      const ClientGroupScores& client = clients[i * clients.size() / shown];
      if (const auto found = client.scores.find(config_.metric); found != client.scores.end()) {
        event.numbers["client/" + client.name] = found->second;
      }
    }
    if (!event.numbers.empty()) parts_.tracker.record(event);
  }

  // The global model or each client's own one on its test examples, or the own one on the shared ones.
  enum class About { kGlobal, kOwn, kLocalOnShared };

  Request request_about(About about, std::span<const ClientId> clients) const {
    const auto round = static_cast<std::uint64_t>(state_.round);
    if (about == About::kGlobal) return at_variant(evaluate_request(state_.model, round));
    if (parts_.traits.any_network) {
      Request request = parts_.algorithm.ask_own_models(state_.model, round, clients);
      request.body.numbers["shared"] = about == About::kLocalOnShared ? 1 : 0;
      return request;
    }
    if (parts_.traits.personal) return local_evaluate_request(state_.model, round, about == About::kLocalOnShared);
    return parts_.algorithm.ask_own_models(state_.model, round, clients);
  }

  Scorer::ClientTotals ask_clients(About about) {
    std::vector<ClientId> clients;
    for (const RosterEntry& client : parts_.federation.roster().members()) {
      const bool newcomer = std::binary_search(config_.newcomers.begin(), config_.newcomers.end(), client.id);
      if (parts_.federation.roster().size_of(client.id) > 0 && !newcomer) clients.push_back(client.id);
    }
    if (config_.evaluation_clients > 0 && config_.evaluation_clients < clients.size()) {
      const auto round = static_cast<std::uint64_t>(state_.round);
      RandomStream stream({.seed = config_.seed, .purpose = "evaluation", .round = round});
      stream.shuffle(std::span(clients));
      clients.resize(config_.evaluation_clients);
      std::sort(clients.begin(), clients.end());
    }
    std::vector<Message> answers(clients.size());
    Missing missing{.what = "score"};
    for (Reply& reply : parts_.federation.ask(clients, request_about(about, clients))) {
      if (!reply.ok()) {
        missing.add(reply);
        continue;
      }
      if (const std::string fault = parts_.scorer.fault_of(reply.body); !fault.empty()) {
        Log("round").warning("round {}: the scores of client {} are left out: {}", state_.round, reply.client, fault);
        continue;
      }
      answers.at(reply.slot) = std::move(reply.body);
    }
    missing.log(static_cast<std::uint64_t>(state_.round), clients.size());
    missing_scores_ = missing.count;
    Scorer::ClientTotals totals;
    for (std::size_t i = 0; i < clients.size(); ++i) totals.emplace_back(clients[i], std::move(answers[i]));
    return totals;
  }

  // Is this the best so far, and good enough?
  void judge() {
    const auto found = state_.last.find(config_.metric);
    check(found != state_.last.end(), "the main score is not among the scores");
    const double now = found->second;
    if (std::isnan(now)) return;
    const double sign = config_.higher_is_better ? 1 : -1;
    const auto old = state_.best.find(config_.metric);
    if (old == state_.best.end() || sign * now > sign * old->second) {
      state_.best = state_.last;
      state_.best_round = state_.round;
      state_.best_variant = parts_.algorithm.variant();
      state_.best_model = state_.model.clone();
      parts_.tracker.record({"best", state_.round, {{config_.metric, now}}});
    }
    if (config_.target && sign * now >= sign * *config_.target && !state_.rounds_to_target) {
      state_.rounds_to_target = state_.round;
    }
    const Milestone milestone{state_.round, now, state_.seconds, state_.bytes_up + state_.bytes_down, state_.emulated};
    for (TargetReached& target : state_.targets) {
      if (target.reached || sign * now < sign * target.target) continue;
      target.reached = milestone;
      target.before = state_.last_evaluation;
    }
    state_.last_evaluation = milestone;
  }

  const RoundLoopParts& parts_;
  const RoundLoopConfig& config_;
  RoundLoopState& state_;
  EmulatedTotals selection_ = {};  // what the selector's questions cost in this round
  std::string first_failure_ = {};
  bool anything_used_ = false;  // of the replies
  bool told_of_missing_tests_ = false;
  std::size_t missing_scores_ = 0;  // clients that did not answer when they were last asked for scores
};

}  // namespace

void check_cohort(const Selector& selector, std::span<const double> sizes, std::size_t clients_per_round,
                  bool emulated) {
  SelectionContext context;
  context.sizes = sizes;
  context.count = clients_per_round;
  if (emulated) context.seconds = 0;
  const std::size_t most = selector.most_ever(context);
  if (clients_per_round > most) {
    throw ConfigError(fmt::format(
        "clients_per_round: {} clients are to train in a round, but only {} of {} can be selected; lower it, or make a "
        "partition with more clients",
        clients_per_round, most, sizes.size()));
  }
}

RoundLoopEnd run_rounds(const RoundLoopParts& parts, const RoundLoopConfig& config, RoundLoopState& state) {
  return RoundLoop(parts, config, state).run();
}

}  // namespace chorus::inline federated
