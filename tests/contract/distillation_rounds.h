#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "algorithm/attacks/attacked_federation.h"
#include "core/config/config.h"
#include "core/ports/algorithm.h"
#include "core/ports/forwarding_federation.h"
#include "core/ports/link.h"
#include "core/ports/transport.h"
#include "tests/contract/linear_clients.h"

namespace chorus::inline contract {

inline std::vector<linear::Client> three_learners() {
  return {{.examples = 6, .steps = 2}, {.examples = 9, .steps = 5}, {.examples = 15, .steps = 9}};
}

/// Changes requests and replies in transit and counts the asks.
class Overheard : public ForwardingFederation {
 public:
  Overheard(Federation& inner, std::function<void(Reply&)> change, std::function<void(Request&)> change_request)
      : ForwardingFederation(inner), change_(std::move(change)), change_request_(std::move(change_request)) {}
  Replies ask(std::span<const ClientId> cohort, Request request) override {
    ++asks;
    if (change_request_) change_request_(request);
    for (const auto& [name, tensor] : request.body.tensors) {
      floats_down += static_cast<double>(tensor.numel());
      floats_received += static_cast<double>(tensor.numel()) * static_cast<double>(cohort.size());
    }
    const auto replies = std::make_shared<Replies>(inner().ask(cohort, std::move(request)));
    return Replies([this, replies] {
      std::optional<Reply> reply = replies->next();
      if (reply && reply->ok()) {
        for (const auto& [name, tensor] : reply->body.tensors) floats_up += static_cast<double>(tensor.numel());
      }
      if (reply && change_) change_(*reply);
      return reply;
    });
  }
  int asks = 0;
  double floats_down = 0;      // of requests, a broadcast counts once
  double floats_received = 0;  // by all clients
  double floats_up = 0;

 private:
  std::function<void(Reply&)> change_;
  std::function<void(Request&)> change_request_;
};

/// Rounds of a distillation method among linear clients.
struct DistillationRounds {
  static inline bool linked = false;
  linear::World world;
  std::unique_ptr<Algorithm> algorithm;
  at::Tensor model;
  std::size_t cohort_batch = 2, workers = 1;
  std::uint64_t round = 0;
  std::string aggregation = "mean";
  std::function<void(Reply&)> change = {};
  std::function<void(Request&)> change_request = {};
  std::optional<AttacksConfig> attacks = {};
  int asks = 0;
  double floats_down = 0, floats_received = 0, floats_up = 0;
  Traffic traffic = {};

  DistillationRounds(const std::string& name, std::vector<linear::Client> clients, const std::string& options = "{}")
      : world{.clients = std::move(clients)}, algorithm(make(name, options)), model(world.beginning()) {}

  static std::unique_ptr<Algorithm> make(const std::string& name, const std::string& options) {
    Choice<Algorithms> choice(name);
    ConfigDocument::parse(options, "test").fill([&](ConfigVisitor& visitor) { choice.describe(visitor); });
    return choice.make();
  }

  /// Scores instead of classes.
  void regress() {
    world.classes = 1;
    world.learning_rate = 0.2;
    model = world.beginning();
  }

  RoundResult step(std::vector<ClientId> order = {}) {
    if (order.empty()) {
      for (ClientId id = 0; id < world.clients.size(); ++id) order.push_back(id);
    }
    std::vector<Member> cohort;
    for (const ClientId id : order) cohort.push_back({id, 1});
    LocalFederation local(linear::federation_input(world, cohort_batch, workers));
    std::unique_ptr<Transport> transport;
    std::unique_ptr<LinkedFederation> link;
    if (linked) {
      transport = Transports::make("inproc");
      link = LinkedFederations::make("wire", LinkInput{*transport, local});
    }
    Federation& honest = link ? static_cast<Federation&>(*link) : local;
    std::optional<AttackedFederation> attacked;
    if (attacks) attacked.emplace(AttackedFederationInput{honest, *attacks, 7});
    Overheard federation(attacked ? static_cast<Federation&>(*attacked) : honest, change, change_request);
    const auto rule = Aggregations::make(aggregation);
    const auto server = world.server();
    RoundInput input{federation, *rule, cohort, model, ++round, 10, 7};
    input.server = server.get();
    RoundResult result = algorithm->round(input);
    asks = federation.asks;
    floats_down = federation.floats_down;
    floats_received = federation.floats_received;
    floats_up = federation.floats_up;
    traffic = federation.traffic();
    return result;
  }
  at::Tensor own(ClientId id) const {
    const auto found = world.states.find(id);
    return found == world.states.end() ? world.beginning() : found->second.at("distill.model");
  }
};

}  // namespace chorus::inline contract
