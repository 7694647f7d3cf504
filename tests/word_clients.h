#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/config/config.h"
#include "core/ports/aggregation.h"
#include "core/ports/federation.h"
#include "core/ports/procedure.h"
#include "core/ports/workbench.h"
#include "core/tensor/layout.h"

namespace chorus::inline tests {

/// A word table of 6 rows and a matrix; all of it trains.
inline Layout word_layout() {
  Layout layout;
  layout.begin_layer(kEmbeddingLayer);
  layout.add("words", {6, 3}, Init::zeros());
  layout.begin_layer(0);
  layout.add("matrix", {2, 2}, Init::zeros());
  layout.freeze([](const ParamSpec&) { return false; });
  return layout;
}

/// One client of WordClients.
class WordBench : public Workbench {
 public:
  using Train = std::function<at::Tensor(const at::Tensor& start)>;
  WordBench(ClientId client, const Layout& layout, ClientState& stored, Train train)
      : client_(client), layout_(layout), stored_(stored), state_(stored), train_(std::move(train)) {}

  std::span<const ClientId> clients() const override { return {&client_, 1}; }
  std::int64_t parameters() const override { return layout_.trainable_size(); }
  const Layout& layout() const override { return layout_; }
  double examples(std::size_t) const override { return 1; }
  at::Tensor beginning() const override { return at::zeros({parameters()}); }
  ClientState& state(std::size_t) override { return state_; }
  std::function<void()> state_to_keep(std::size_t) override {
    return [this, now = state_] { stored_ = now; };
  }
  using Workbench::train;
  TrainResult train(const at::Tensor& start, const TrainWish&) override {
    const at::Tensor update = train_(start);
    return {.values = (update.defined() ? update : at::zeros({parameters()})).unsqueeze(0),
            .finite = {true},
            .examples = {1},
            .batches = {1},
            .steps = {1},
            .rate_sum = {1},
            .normalizer = {1},
            .loss = {0.5},
            .failures = {update.defined() ? "" : "it cannot train"},
            .seconds = 0};
  }
  std::unique_ptr<Learner> learner(const at::Tensor&, const LearnerWish&) override { throw InternalError("not here"); }
  std::size_t public_rows() const override { return 0; }
  at::Tensor predict(const at::Tensor&, std::span<const std::uint32_t>) override { throw InternalError("not here"); }
  GradientResult gradient(const at::Tensor&, bool) override { throw InternalError("not here"); }
  std::vector<Message> evaluate(const at::Tensor&, TestOn) override { throw InternalError("not here"); }

 protected:
  void retain_clients(std::span<const std::size_t>) override {}

 private:
  ClientId client_;
  const Layout& layout_;
  ClientState& stored_;
  ClientState state_;
  Train train_;
};

/// Clients that each have some words: client k adds (k + 1) / 10 times the mean of the model plus 1 to every element of
/// its rows of the word table, and of the matrix. A server that lies is simulated by `tamper`, which changes what one
/// client is asked.
class WordClients : public Federation {
 public:
  explicit WordClients(std::vector<std::set<std::int64_t>> words)
      : layout(word_layout()),
        words_(std::move(words)),
        roster_(Roster::of_sizes(std::vector<double>(words_.size(), 1))) {}

  const Roster& roster() const override { return roster_; }
  void end_session(std::uint64_t session) override { sessions_.erase(session); }
  Traffic traffic() const override { return {}; }
  bool real_time() const override { return real; }
  Replies ask(std::span<const ClientId> cohort, Request request) override {
    ++asks;
    auto waiting = std::make_shared<std::vector<Reply>>();
    for (std::size_t slot = 0; slot < cohort.size(); ++slot) {
      Request mine = request;
      mine.own.clear();
      if (!request.own.empty()) mine.own.push_back(request.own.at(slot));
      if (tamper) tamper(cohort[slot], mine);
      waiting->push_back(answer(cohort[slot], slot, mine));
    }
    return Replies([waiting, next = std::size_t{0}]() mutable -> std::optional<Reply> {
      return next < waiting->size() ? std::optional(std::move((*waiting)[next++])) : std::nullopt;
    });
  }

  /// What client k makes of a model; undefined where it fails.
  at::Tensor update_of(ClientId client, const at::Tensor& start) const {
    if (failing.contains(client)) return {};
    at::Tensor update = at::zeros({layout.trainable_size()});
    const double step = (client + 1) * 0.1 * (1 + start.mean().item<double>());
    for (const ParamSpec& param : layout.specs()) {
      for (std::int64_t row = 0; row < param.shape[0]; ++row) {
        if (param.name == "words" && !words_.at(client).contains(row)) continue;
        update.narrow(0, param.offset + row * param.shape[1], param.shape[1]).fill_(step);
      }
    }
    return update;
  }

  const Layout layout;
  std::function<void(ClientId, Request&)> tamper;
  std::set<ClientId> failing;
  bool real = false;  ///< clients of other processes
  std::map<ClientId, ClientState> states;
  std::vector<std::string> failures;  ///< of replies
  double bytes_up = 0;                ///< in tensors
  int asks = 0;

 private:
  Reply answer(ClientId client, std::size_t slot, const Request& request) {
    std::shared_ptr<WordBench>& bench = sessions_[request.session][client];
    if (!bench || request.session == 0) {
      bench = std::make_shared<WordBench>(client, layout, states[client],
                                          [this, client](const at::Tensor& start) { return update_of(client, start); });
    }
    Reply reply;
    reply.client = client;
    reply.slot = slot;
    try {
      Answer answered = Procedures::make(request.procedure)->run(request, *bench).at(0);
      reply.body = std::move(answered.body);
      reply.failure = answered.failure;
      for (const auto& entry : reply.body.tensors) bytes_up += static_cast<double>(entry.second.nbytes());
    } catch (const DataError& error) {
      reply.failure = error.what();
    }
    if (!reply.ok()) failures.push_back(reply.failure);
    reply.on_accept = [keep = bench->state_to_keep(0), bench] { keep(); };
    return reply;
  }

  std::vector<std::set<std::int64_t>> words_;
  Roster roster_;
  std::map<std::uint64_t, std::map<ClientId, std::shared_ptr<WordBench>>> sessions_;
};

inline std::unique_ptr<Aggregation> aggregation_of(const std::string& name, const std::string& options) {
  Choice<Aggregations> choice(name);
  ConfigDocument::parse(options, "test").fill([&](ConfigVisitor& visitor) { choice.describe(visitor); });
  return choice.make();
}

/// Rounds of an aggregation over five clients: row 0 is everybody's, row 1 that of two, row 2 that of the last alone;
/// the others are nobody's.
struct WordTrial {
  explicit WordTrial(const std::string& options, const std::string& name = "secagg",
                     std::vector<std::set<std::int64_t>> words = {{0}, {0}, {0, 1}, {0, 1}, {0, 2}})
      : aggregation(aggregation_of(name, options)), clients(std::move(words)) {
    AggregationSetting setting;
    setting.clients = setting.clients_per_round = static_cast<double>(clients.roster().size());
    setting.layout = &clients.layout;
    aggregation->prepare(setting);
  }

  Aggregated round() {
    std::vector<Member> cohort;
    for (const RosterEntry& member : clients.roster().members()) cohort.push_back({member.id, 1});
    AggregationInput input{.federation = clients, .cohort = cohort, .request = {.procedure = "train", .round = 3}};
    input.request.body.tensors["model"] = model;
    input.request.own = own;
    input.size = clients.layout.trainable_size();
    return aggregation->aggregate(std::move(input));
  }
  /// The round as an algorithm makes it. Whether there was a mean.
  bool step() {
    const Aggregated result = round();
    if (!result.means[0].defined()) return false;
    model += result.means[0];
    return true;
  }

  std::unique_ptr<Aggregation> aggregation;
  WordClients clients;
  std::vector<Message> own;  ///< of the request
  at::Tensor model = at::linspace(-0.3, 0.6, clients.layout.trainable_size());
};

}  // namespace chorus::inline tests
