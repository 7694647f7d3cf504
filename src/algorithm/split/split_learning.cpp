#include "algorithm/split/split_learning.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "algorithm/federated/weighted_mean.h"
#include "core/base/error.h"
#include "core/base/rng.h"

namespace chorus::inline split {
namespace {

constexpr double kMostSteps = 1e6;  // of a client in a round

double bytes_of(const Message& message, const char* name) {
  const auto found = message.tensors.find(name);
  return found == message.tensors.end() ? 0 : 4 * static_cast<double>(found->second.numel());
}

}  // namespace

void SplitConfig::describe(ConfigVisitor& visitor) {
  visitor.field("layers", layers, "layers at the client, after the embeddings; 0: the embeddings alone").at_least(0);
  visitor.field("labels", labels, {{"server", Labels::kServer}, {"client", Labels::kClient}},
                "who has the head, the labels and the loss; client: a U-shaped network");
  visitor.field("noise", noise, "standard deviation of Gaussian noise on every element of the activations").at_least(0);
  visitor
      .field("decorrelate", decorrelate,
             "weight of the distance correlation between words and activations in the client's loss")
      .at_least(0);
}

void SplitFedConfig::describe(ConfigVisitor& visitor) {
  SplitConfig::describe(visitor);
  visitor.field("version", version, "1: a server part per client, averaged; 2: one server part for all, in turn")
      .at_least(1)
      .at_most(2);
}

SplitCut SplitLearning::cut() const {
  const auto most = static_cast<std::int64_t>(1000000);
  return {static_cast<int>(std::min(config_.layers, most)), config_.labels == SplitConfig::Labels::kClient};
}

void SplitLearning::prepare_split(const SplitDesk& desk) { parts_ = desk.parts(cut()); }

at::Tensor SplitLearning::take(const at::Tensor& model, const at::Tensor& places) {
  return model.index_select(0, places.to(model.device()));
}

void SplitLearning::put(const at::Tensor& model, const at::Tensor& places, const at::Tensor& values) {
  model.index_copy_(0, places.to(model.device()), values.to(model.device()));
}

/// A group of clients that train in step.
class SplitLearning::Group {
 public:
  Group(const SplitLearning& algorithm, const RoundInput& input, std::span<const Visit> visits, RoundResult& result)
      : algorithm_(algorithm), input_(input), visits_(visits), result_(result), session_(input.federation) {}

  std::vector<Visited> run(const at::Tensor& client_part) {
    Request request{.procedure = "split/start", .round = input_.round};
    request.body.tensors["model"] = client_part;
    describe_to(request.body);
    request.body.numbers["noise"] = algorithm_.config_.noise;
    request.body.numbers["decorrelate"] = algorithm_.config_.decorrelate;
    std::vector<std::size_t> active(visits_.size());
    for (std::size_t i = 0; i < active.size(); ++i) active[i] = i;
    const bool u_shaped = algorithm_.cut().labels_stay;
    while (!active.empty()) {
      Bodies sent = ask(active, std::move(request));
      Bodies replies = serve(finished(std::move(sent), client_part),
                             [&](const Visit& visit, const Message& body) { return serve_one(visit, body, u_shaped); });
      if (u_shaped && !replies.empty()) {
        request = Request{.procedure = "split/answer", .round = input_.round};
        active = own_of(replies, request);
        sent = ask(active, std::move(request));
        replies = serve(std::move(sent), [&](const Visit& visit, const Message& body) {
          result_.numbers["activation_bytes_up"] += bytes_of(body, "gradient");
          Message gradient = visit.server->backward(body);
          result_.numbers["activation_bytes_down"] += bytes_of(gradient, "gradient");
          return gradient;
        });
      }
      request = Request{.procedure = "split/step", .round = input_.round};
      active = own_of(replies, request);
    }
    for (const Visit& visit : visits_) {
      double& most = result_.numbers["server_memory"];
      most = std::max(most, visit.server->memory());
    }
    return std::move(visited_);
  }

 private:
  using Bodies = std::map<std::size_t, Message>;  // by index of the visit

  void describe_to(Message& body) const {
    body.numbers["layers"] = algorithm_.cut().layers;
    body.numbers["labels_stay"] = algorithm_.cut().labels_stay ? 1 : 0;
    body.numbers["share"] = std::max(algorithm_.parts_.client_share, 1e-6);
  }

  static std::vector<std::size_t> own_of(Bodies& replies, Request& request) {
    std::vector<std::size_t> active;
    for (auto& [index, message] : replies) {
      active.push_back(index);
      request.own.push_back(std::move(message));
    }
    return active;
  }

  Bodies ask(const std::vector<std::size_t>& active, Request request) {
    if (!request.body.numbers.contains("share")) request.body.numbers["share"] = algorithm_.parts_.client_share;
    std::vector<ClientId> clients;
    for (const std::size_t index : active) clients.push_back(visits_[index].member.client);
    Bodies bodies;
    std::vector<Cost> costs(clients.size());
    for (Reply& reply : session_.ask(clients, std::move(request))) {
      costs.at(reply.slot) = reply.cost;
      const std::size_t index = active.at(reply.slot);
      if (!reply.ok()) {
        fail(index, reply.failure);
        if (reply.left_out) result_.emulated.left_out.push_back(reply.client);
        continue;
      }
      reply.accept();
      bodies[index] = std::move(reply.body);
    }
    result_.emulated.totals += cost_of_asking(costs);
    return bodies;
  }

  void fail(std::size_t index, const std::string& why) {
    result_.failed.emplace_back(visits_[index].member.client, why);
  }

  // Takes out the clients that have trained on all their batches.
  Bodies finished(Bodies sent, const at::Tensor& start) {
    Bodies going_on;
    for (auto& [index, body] : sent) {
      if (!body.has_tensor("update")) {
        going_on[index] = std::move(body);
        continue;
      }
      const Visit& visit = visits_[index];
      Reply reply{.client = visit.member.client, .slot = visit.slot, .body = std::move(body)};
      try {
        if (const std::string fault = fault_of(reply, {{.name = "update"}}, start.numel()); !fault.empty()) {
          throw DataError(fault);
        }
        reply.body.numbers["batches"] = reply.body.number("steps");  // of the whole round
        const double weight = weight_of(reply, input_.weighting) * visit.member.times;
        const at::Tensor update = reply.body.tensor("update").to(start.device());
        visited_.push_back({visit.slot, weight, start + update, update});
        count(reply.body, index, weight);
      } catch (const DataError& error) {
        fail(index, error.what());
      }
    }
    return going_on;
  }

  static double reported(const Message& body, const char* name) {
    const double value = body.number(name, 0);
    return std::isfinite(value) && value >= 0 ? value : 0;
  }
  void count(const Message& body, std::size_t index, double weight) {
    const double steps = reported(body, "steps");
    result_.examples += reported(body, "examples");
    result_.steps += steps;
    result_.numbers["tokens"] += reported(body, "tokens");
    double& most = result_.numbers["client_memory"];
    most = std::max(most, reported(body, "client_memory"));
    const double loss = algorithm_.cut().labels_stay ? body.number("loss", 0) : losses_[index] / std::max(steps, 1.0);
    result_.loss += weight * loss;
    result_.numbers["weight"] += weight;
  }

  template <typename Serve>
  Bodies serve(Bodies sent, Serve one) {
    Bodies replies;
    for (auto& [index, body] : sent) {
      try {
        replies[index] = one(visits_[index], body);
      } catch (const DataError& error) {
        fail(index, error.what());
        replies.erase(index);
      }
    }
    return replies;
  }

  Message serve_one(const Visit& visit, const Message& body, bool u_shaped) {
    const auto index = static_cast<std::size_t>(&visit - visits_.data());
    std::int64_t& left = steps_left_.try_emplace(index, -1).first->second;
    if (left < 0) {
      const double steps = body.number("steps");
      if (!(steps >= 1 && steps <= kMostSteps)) throw DataError("its number of steps is out of range");
      left = static_cast<std::int64_t>(steps);
      visit.server->begin(left);
    }
    if (left == 0) throw DataError("it sends more batches than it said");
    --left;
    result_.numbers["activation_bytes_up"] += bytes_of(body, "activations");
    Message reply =
        u_shaped ? visit.server->forward(visit.member.client, body) : visit.server->answer(visit.member.client, body);
    losses_[index] += visit.server->last_loss();
    result_.numbers["activation_bytes_down"] += bytes_of(reply, u_shaped ? "hidden" : "gradient");
    return reply;
  }

  const SplitLearning& algorithm_;
  const RoundInput& input_;
  std::span<const Visit> visits_;
  RoundResult& result_;
  Session session_;
  std::map<std::size_t, std::int64_t> steps_left_;
  std::map<std::size_t, double> losses_;  // sums
  std::vector<Visited> visited_;
};

std::vector<SplitLearning::Visited> SplitLearning::visit(const RoundInput& input, std::span<const Visit> group,
                                                         const at::Tensor& client_part, RoundResult& result) const {
  check(input.split != nullptr && parts_.client.defined(), "split learning needs the server's part of the network");
  return Group(*this, input, group, result).run(client_part);
}

void SplitLearning::finish(RoundResult& result) const {
  const double weight = result.numbers["weight"];
  result.numbers.erase("weight");
  result.loss = weight > 0 ? result.loss / weight : std::nan("");
  result.numbers["client_parameters"] = static_cast<double>(parts_.client.numel());
  result.numbers["server_parameters"] = static_cast<double>(parts_.server.numel());
}

namespace {

double elapsed(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

RoundResult SplitLearning::train_side_by_side(const RoundInput& input) const {
  const auto begin = std::chrono::steady_clock::now();
  RoundResult result;
  const at::Tensor client_part = take(input.model, parts_.client), server_part = take(input.model, parts_.server);
  const std::vector<Member> members = asking_order(input);
  std::vector<std::unique_ptr<SplitServer>> servers;
  std::vector<Visit> group;
  for (std::size_t slot = 0; slot < members.size(); ++slot) {
    servers.push_back(input.split->server(cut(), server_part, input.round));
    group.push_back({slot, members[slot], servers.back().get()});
  }
  WeightedMean updates(members.size());
  for (const Visited& visited : visit(input, group, client_part, result)) {
    at::Tensor update = at::zeros_like(input.model);
    put(update, parts_.client, visited.update);
    put(update, parts_.server, servers[visited.slot]->values().to(server_part.device()) - server_part);
    updates.add(visited.slot, visited.weight, update);
  }
  result.numbers["server_memory"] *= static_cast<double>(members.size());  // its copies are all there at once
  if (const at::Tensor mean = updates.result(); mean.defined()) input.model.add_(mean);
  result.seconds = elapsed(begin);
  finish(result);
  return result;
}

RoundResult SplitNn::round(const RoundInput& input) {
  if (input.cohort.size() == 1) return train_side_by_side(input);
  const auto begin = std::chrono::steady_clock::now();
  RoundResult result;
  at::Tensor client_part = take(input.model, parts().client);
  const auto server = input.split->server(cut(), take(input.model, parts().server), input.round);
  const std::vector<Member> members = asking_order(input);
  for (std::size_t slot = 0; slot < members.size(); ++slot) {
    const Visit one{slot, members[slot], server.get()};
    const std::vector<Visited> visited = visit(input, {&one, 1}, client_part, result);
    if (!visited.empty()) client_part = visited.front().part;
  }
  put(input.model, parts().client, client_part);
  put(input.model, parts().server, server->values());
  result.seconds = elapsed(begin);
  finish(result);
  return result;
}

RoundResult SplitFed::round(const RoundInput& input) {
  if (version_ == 1 || input.cohort.size() == 1) return train_side_by_side(input);
  const auto begin = std::chrono::steady_clock::now();
  RoundResult result;
  const at::Tensor client_part = take(input.model, parts().client);
  const auto server = input.split->server(cut(), take(input.model, parts().server), input.round);
  const std::vector<Member> members = asking_order(input);
  std::vector<std::size_t> order(members.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  RandomStream({.seed = input.seed, .purpose = "splitfed order", .round = input.round}).shuffle(std::span(order));
  WeightedMean updates(members.size());
  for (const std::size_t slot : order) {
    const Visit one{slot, members[slot], server.get()};
    for (const Visited& visited : visit(input, {&one, 1}, client_part, result)) {
      updates.add(visited.slot, visited.weight, visited.update);
    }
  }
  if (const at::Tensor mean = updates.result(); mean.defined()) put(input.model, parts().client, client_part + mean);
  put(input.model, parts().server, server->values());
  result.seconds = elapsed(begin);
  finish(result);
  return result;
}

namespace {

const Registration<Algorithms, SplitConfig> kRegisteredSplitNn{
    "splitnn",
    "lower layers at the clients, one after the other, and the rest at the server (Gupta and Raskar 2018)",
    [](const SplitConfig& config) { return std::make_unique<SplitNn>(config); },
    {.individual_updates = true, .own_mean = true, .splits = true}};
const Registration<Algorithms, SplitFedConfig> kRegisteredSplitFed{
    "splitfed",
    "lower layers at the clients, averaged, and the rest at the server (Thapa et al. 2022)",
    [](const SplitFedConfig& config) { return std::make_unique<SplitFed>(config); },
    {.individual_updates = true, .own_mean = true, .splits = true}};

}  // namespace
}  // namespace chorus::inline split
