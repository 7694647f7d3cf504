// A method that needs what FedAvg does not: three asks per round to the same clients, which keep their values in
// between, and a separate message for each client. Registered here, so every contract test runs it, too.
#include "tests/contract/toy_algorithm.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "algorithm/federated/collect.h"

namespace chorus::toy {
namespace {

/// What a client keeps between the asks: its trained values.
class KeptUpdates : public Kept {
 public:
  explicit KeptUpdates(TrainedCohort trained) : trained_(std::move(trained)) {}
  void retain(std::span<const std::size_t> clients) override {
    std::vector<Answer> staying;
    for (const std::size_t i : clients) staying.push_back(std::move(trained_.answers[i]));
    trained_.answers = std::move(staying);
  }
  std::vector<Answer>& answers() { return trained_.answers; }

 private:
  TrainedCohort trained_;
};

// 1. Trains and reports only how much.
class Train : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override {
    TrainedCohort trained = train_from_model(request, bench);
    std::vector<Answer> said;
    for (const Answer& answer : trained.answers) {
      said.push_back({{.numbers = {{"examples", answer.body.number("examples")}}}, answer.failure});
    }
    bench.keep("toy", std::make_unique<KeptUpdates>(std::move(trained)));
    return said;
  }
};

// 2. Scales the kept update by a factor that only this client receives.
class Scale : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override {
    auto& kept = dynamic_cast<KeptUpdates&>(*bench.kept("toy"));
    std::vector<Answer> said(bench.clients().size());
    for (std::size_t i = 0; i < said.size(); ++i) {
      at::Tensor& update = kept.answers()[i].body.tensors.at("update");
      update = update * request.own_of(i).number("factor");
    }
    return said;
  }
};

// 3. Sends the update.
class Send : public Procedure {
 public:
  std::vector<Answer> run(const Request&, Workbench& bench) const override {
    return dynamic_cast<KeptUpdates&>(*bench.kept("toy")).answers();
  }
};

const ProcedureRegistration<Train> kTrain{"toy/train", "train and keep the update"};
const ProcedureRegistration<Scale> kScale{"toy/scale", "scale the update that was kept"};
const ProcedureRegistration<Send> kSend{"toy/send", "send the update that was kept"};
const Registration<Algorithms> kToy{"toy", "asks three times per round", [] { return std::make_unique<ThreeAsks>(); }};

}  // namespace

RoundResult ThreeAsks::round(const RoundInput& input) {
  Session session(input.federation);
  std::vector<ClientId> clients;
  for (const Member& member : input.cohort) clients.push_back(member.client);
  std::sort(clients.begin(), clients.end());
  RoundResult result;
  result.loss = std::nan("");

  std::vector<ClientId> staying;
  for (Reply& reply : session.ask(clients, request_with_model(input, "toy/train"))) {
    if (reply.ok()) {
      staying.push_back(reply.client);
    } else {
      result.failed.emplace_back(reply.client, reply.failure);
    }
  }
  if (staying.empty()) return result;
  std::sort(staying.begin(), staying.end());

  Request scale{.procedure = "toy/scale", .round = input.round};
  for (const ClientId client : staying) scale.own.push_back({.numbers = {{"factor", factor(client)}}});
  for (Reply& reply : session.ask(staying, std::move(scale))) check(reply.ok(), "scaling cannot fail");

  std::vector<Member> members;
  for (const ClientId client : staying) members.push_back({client, 1});
  Request send{.procedure = "toy/send", .round = input.round};
  send.session = session.id();
  Collected collected = collect(part_of(input, members, input.model), std::move(send));
  if (collected.means[0].defined()) input.model.add_(collected.means[0]);
  join(result, std::move(collected.result));
  return result;
}

}  // namespace chorus::toy
