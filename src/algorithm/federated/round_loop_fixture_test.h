#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <set>

#include "algorithm/federated/round_loop.h"

namespace chorus::inline federated {

/// One request made by the round loop itself.
struct LoopAsk {
  std::string procedure;
  std::vector<ClientId> clients;
  std::uint64_t round = 0;
  double model = 0;  // first element
  std::int64_t elements = 0;
  double shared = 0, depth = -1;
};

/// Replies at once. A reply costs 1 + id emulated seconds, 100 bytes down and 10 up.
class LoopClients : public Federation {
 public:
  explicit LoopClients(std::vector<double> sizes) : roster_(Roster::of_sizes(sizes)) {}
  const Roster& roster() const override { return roster_; }
  void end_session(std::uint64_t) override {}
  Traffic traffic() const override { return traffic_; }
  Replies ask(std::span<const ClientId> cohort, Request request) override {
    const at::Tensor model = request.body.tensor("model");
    asks.push_back({request.procedure,
                    {cohort.begin(), cohort.end()},
                    request.round,
                    model[0].item<double>(),
                    model.numel(),
                    request.body.number("shared", 0),
                    request.body.number("depth", -1)});
    const std::vector<ClientId> clients(cohort.begin(), cohort.end());
    // Last asked, first to reply.
    return Replies([this, clients, left = clients.size()]() mutable -> std::optional<Reply> {
      if (left == 0) return std::nullopt;
      const std::size_t slot = --left;
      Reply reply{.client = clients[slot], .slot = slot};
      if (broken.contains(reply.client)) {
        reply.failure = "it is broken";
      } else {
        reply.body.numbers["loss"] = losses.at(reply.client);
        reply.body.texts["totals"] = std::to_string(reply.client);
      }
      reply.cost.seconds = 1.0 + reply.client;
      reply.cost.joules = 2;
      reply.cost.bytes_down = 100;
      reply.cost.bytes_up = 10;
      traffic_.down += 100;
      traffic_.up += 10;
      return reply;
    });
  }

  std::vector<LoopAsk> asks;
  std::set<ClientId> broken;
  std::vector<double> losses = std::vector<double>(100, 1.0);

 private:
  Roster roster_;
  Traffic traffic_;
};

/// Adds 1 to the model in every round and records its inputs.
class CountingRounds : public Algorithm {
 public:
  RoundResult round(const RoundInput& input) override {
    input.model.add_(1);
    cohorts.emplace_back(input.cohort.begin(), input.cohort.end());
    enough.push_back(input.enough);
    numbers.push_back({input.round, input.rounds, input.seed});
    if (judges) judged.push_back(input.judge(input.model, {}));
    RoundResult result = next;
    result.examples = static_cast<double>(input.cohort.size());
    return result;
  }
  Variant variant() const override { return now; }

  RoundResult next = {};
  bool judges = false;
  Variant now = {};
  std::vector<std::vector<Member>> cohorts;
  std::vector<std::size_t> enough;
  std::vector<std::array<std::uint64_t, 3>> numbers;
  std::vector<double> judged;
};

/// Scores by a rule about the model's first element; totals of clients are counted.
class RuleScorer : public Scorer {
 public:
  Scores score(const at::Tensor& model, const Variant& variant) override {
    ++calls;
    variants.push_back(variant);
    return {{"accuracy", rule(model[0].item<double>())}, {"f1/sport", 0.5}};
  }
  std::string fault_of(const Message& reply) const override {
    return reply.texts.contains("totals") && reply.text("totals") == nonsense ? "they are nonsense" : "";
  }
  Scores pooled(const ClientTotals& totals) const override {
    double replied = 0;
    for (const auto& entry : totals) replied += entry.second.texts.empty() ? 0 : 1;
    return {{"accuracy", replied / 10}, {"clients", static_cast<double>(totals.size())}};
  }
  std::vector<ClientGroupScores> deciles(const ClientTotals& totals) const override {
    return {{"decile 1", totals.size(), {{"accuracy", 0.25}}}};
  }

  std::function<double(double)> rule = [](double model) { return model / 10; };
  int calls = 0;
  std::vector<Variant> variants;
  std::string nonsense = {};  // totals that cannot be used
};

class ListTracker : public Tracker {
 public:
  void record(const Event& event) override { events.push_back(event); }
  std::vector<Event> of(const std::string& kind) const {
    std::vector<Event> found;
    for (const Event& event : events) {
      if (event.kind == kind) found.push_back(event);
    }
    return found;
  }
  std::vector<std::int64_t> rounds_of(const std::string& kind, const std::string& split = "") const {
    std::vector<std::int64_t> rounds;
    for (const Event& event : of(kind)) {
      if (split.empty() || event.texts.at("split") == split) rounds.push_back(event.round);
    }
    return rounds;
  }

  std::vector<Event> events;
};

/// The first `count` reachable clients, unless set otherwise.
class ListSelector : public Selector {
 public:
  std::vector<ClientId> select(const SelectionContext& context) const override {
    counts.push_back(context.count);
    seconds.push_back(context.seconds);
    if (given) return *given;
    std::vector<ClientId> all = eligible_clients(context);
    all.resize(std::min(all.size(), context.count));
    return all;
  }
  std::optional<std::vector<ClientId>> given;
  mutable std::vector<std::size_t> counts;
  mutable std::vector<std::optional<double>> seconds;
};

/// Half of the whole, to depth 1.
class HalfVariants : public Variants {
 public:
  Variant whole() const override { return {2, 1}; }
  int unit() const override { return 1; }
  at::Tensor places(const Variant& variant) const override {
    return torch::arange(variant.depth == 1 ? 2 : 4, at::kLong);
  }
};

struct SaveCall {
  std::int64_t round;
  bool last;
  bool operator==(const SaveCall&) const = default;
};

class RoundLoopTest : public testing::Test {
 protected:
  RoundLoopTest() {
    config.last_round = config.rounds = 3;
    config.clients_per_round = 2;
    config.seed = 7;
    state.model = torch::zeros({4}, at::kFloat);
  }
  RoundLoopEnd run() {
    RoundLoopParts parts{clients, algorithm, traits, *aggregation, *selector, scorer, tracker, coverage, variants};
    parts.save = [&](const RoundLoopState& now, bool last) { saved.push_back({now.round, last}); };
    parts.show = [&](const RoundLoopState& now, const RoundResult&) { shown.push_back(now.round); };
    if (stop) parts.stop = stop;
    if (numbers) parts.numbers = numbers;
    return run_rounds(parts, config, state);
  }
  double model() const { return state.model[0].item<double>(); }

  LoopClients clients{{5, 4, 3, 0, 2, 1}};
  CountingRounds algorithm;
  AlgorithmTraits traits;
  std::unique_ptr<Aggregation> aggregation = Aggregations::make("mean");
  ListSelector list;
  const Selector* selector = &list;
  RuleScorer scorer;
  ListTracker tracker;
  DeviceCoverage coverage{clients.roster().sizes()};
  const Variants* variants = nullptr;
  std::function<bool()> stop;
  std::function<std::map<std::string, double>()> numbers;
  RoundLoopConfig config;
  RoundLoopState state;
  std::vector<SaveCall> saved;
  std::vector<std::int64_t> shown;
};

}  // namespace chorus::inline federated
