// The contract of every federation, with clients in this process and with a server and clients that exchange bytes.
#include "core/ports/federation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <atomic>

#include "core/base/error.h"
#include "core/ports/algorithm.h"
#include "core/ports/link.h"
#include "core/ports/procedure.h"
#include "tests/contract/quadratic_clients.h"
#include "tests/contract/toy_algorithm.h"

namespace chorus::inline contract {
namespace {

using quadratic::Client;
using quadratic::World;
using testing::ElementsAre;
using testing::HasSubstr;

std::atomic<int> runs{0};  // number of procedure runs

/// Replies with the client's id, its batch size and the request's value; fails, throws or counts on request.
class Probe : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override {
    ++runs;
    std::vector<Answer> answers;
    for (std::size_t i = 0; i < bench.clients().size(); ++i) {
      const ClientId id = bench.clients()[i];
      if (request.body.number("throws", -1) == id) throw std::runtime_error("this client's data is strange");
      Answer answer;
      answer.body.numbers = {{"id", id}, {"batch", static_cast<double>(bench.clients().size())}};
      answer.body.numbers["own"] = request.own_of(i).number("own", -1);
      ClientState& state = bench.state(i);
      const double before = state.contains("count") ? state.at("count").item<double>() : 0;
      state["count"] = torch::scalar_tensor(before + 1, at::kDouble);
      answer.body.numbers["count"] = before + 1;
      answers.push_back(std::move(answer));
    }
    // Memory may run out after states have changed.
    if (bench.clients().size() > static_cast<std::size_t>(request.body.number("room", 1e9))) {
      throw c10::OutOfMemoryError({__func__, __FILE__, 0}, "CUDA out of memory");
    }
    return answers;
  }
};
const ProcedureRegistration<Probe> kProbe{"test/probe", "for tests of federations"};

class FederationContract : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() && !quadratic::has_wire()) GTEST_SKIP() << "built without the wire format";
  }
  FederationContract() {
    for (int k = 0; k < 6; ++k) world_.clients.push_back({.steps = 1 + k % 3, .examples = 5.0 + k});
    runs = 0;
  }

  Federation& federation(LocalFederationInput input) {
    local_ = std::make_unique<LocalFederation>(std::move(input));
    if (!GetParam()) return *local_;
    transport_ = Transports::make("inproc");
    link_ = LinkedFederations::make("wire", LinkInput{*transport_, *local_, 5, layout_});
    return *link_;
  }
  Federation& federation() { return federation(quadratic::federation_input(world_, 4, 2)); }

  static std::map<ClientId, Reply> all(Replies replies, bool accept = true) {
    std::map<ClientId, Reply> result;
    for (Reply& reply : replies) {
      if (accept) reply.accept();
      EXPECT_FALSE(result.contains(reply.client));
      result[reply.client] = std::move(reply);
    }
    return result;
  }
  static Request probe(std::map<std::string, double, std::less<>> numbers = {}) {
    Request request{.procedure = "test/probe", .round = 1};
    request.body.numbers = std::move(numbers);
    return request;
  }

  World world_;
  std::uint64_t layout_ = 0;
  std::unique_ptr<LocalFederation> local_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<LinkedFederation> link_;
};
INSTANTIATE_TEST_SUITE_P(Local, FederationContract, testing::Values(false));
INSTANTIATE_TEST_SUITE_P(Linked, FederationContract, testing::Values(true));

const std::vector<ClientId> kAll{0, 1, 2, 3, 4, 5};

TEST_P(FederationContract, HasARosterOfItsMembers) {
  const Federation& who = federation();
  ASSERT_EQ(who.roster().size(), 6U);
  EXPECT_EQ(who.roster().find(3)->examples, 8);
  EXPECT_TRUE(who.roster().find(3)->alive);
  EXPECT_EQ(who.roster().find(6), nullptr);
}

TEST_P(FederationContract, EveryClientRepliesOnceWithItsSlotBytesAndTime) {
  Federation& who = federation();
  const std::vector<ClientId> cohort{4, 1, 5};
  const auto replies = all(who.ask(cohort, probe()));
  ASSERT_EQ(replies.size(), 3U);
  for (const auto& [client, reply] : replies) {
    EXPECT_TRUE(reply.ok()) << reply.failure;
    EXPECT_EQ(cohort[reply.slot], client);
    EXPECT_EQ(reply.body.number("id"), client);
    EXPECT_GT(reply.bytes_up, 20U);
    EXPECT_GE(reply.seconds, 0);
  }
  Traffic sum;
  for (const auto& entry : replies) {
    sum.down += entry.second.bytes_down;
    sum.up += entry.second.bytes_up;
  }
  EXPECT_EQ(who.traffic().up, sum.up);
  EXPECT_EQ(who.traffic().down, sum.down);
}

TEST_P(FederationContract, EachClientGetsItsOwnMessage) {
  Federation& who = federation();
  Request request = probe();
  for (const ClientId client : kAll) request.own.push_back({.numbers = {{"own", 10.0 + client}}});
  for (const auto& [client, reply] : all(who.ask(kAll, std::move(request)))) {
    EXPECT_EQ(reply.body.number("own"), 10.0 + client);
  }
}

TEST_P(FederationContract, AProcedureThatThrowsFailsItsClientOnly) {
  const auto replies = all(federation().ask(kAll, probe({{"throws", 2}})));
  for (const auto& [client, reply] : replies) EXPECT_EQ(reply.ok(), client != 2) << client << reply.failure;
  EXPECT_THAT(replies.at(2).failure, HasSubstr("data is strange"));
  EXPECT_FALSE(world_.states.contains(2));
}

TEST_P(FederationContract, AClientKeepsItsStateOnlyWhenItsReplyIsAccepted) {
  Federation& who = federation();
  for (int round = 0; round < 3; ++round) {
    for (Reply& reply : who.ask(kAll, probe())) {
      if (reply.client < 2) reply.accept();
    }
  }
  for (const auto& [client, reply] : all(who.ask(kAll, probe()), false)) {
    EXPECT_EQ(reply.body.number("count"), client < 2 ? 4 : 1) << client;
  }
}

TEST_P(FederationContract, RunningOutOfMemoryMidwayChangesNoStateTwice) {
  Federation& who = federation();
  for (const auto& entry : all(who.ask(kAll, probe({{"room", 1}})))) {
    EXPECT_TRUE(entry.second.ok());
    EXPECT_EQ(entry.second.body.number("count"), 1);
    EXPECT_EQ(entry.second.body.number("batch"), 1);
  }
  const auto none = all(who.ask(kAll, probe({{"room", 0}})));
  for (const auto& entry : none) EXPECT_THAT(entry.second.failure, HasSubstr("more memory than there is"));
}

TEST_P(FederationContract, ClientsWithDifferentNetworksAreNotBatchedTogether) {
  LocalFederationInput input = quadratic::federation_input(world_, 6, 1);
  std::vector<RosterEntry> members(input.roster.members().begin(), input.roster.members().end());
  for (RosterEntry& member : members) member.model = member.id % 2 == 0 ? "bert" : "gpt2";
  input.roster = Roster(members);
  std::vector<std::vector<ClientId>> opened;
  input.open = [&, open = input.open](std::span<const ClientId> ids, const Request& request) {
    opened.emplace_back(ids.begin(), ids.end());
    return open(ids, request);
  };
  Federation& who = federation(std::move(input));
  EXPECT_EQ(who.roster().find(1)->model, "gpt2");
  const auto replies = all(who.ask(kAll, probe()));
  EXPECT_EQ(replies.size(), 6U);
  EXPECT_THAT(opened, ElementsAre(ElementsAre(0, 2, 4), ElementsAre(1, 3, 5)));
}

TEST_P(FederationContract, ARequestForAnotherNetworkIsRefused) {
  LocalFederationInput input = quadratic::federation_input(world_);
  input.layout = 77;
  layout_ = 78;  // of the server, if there is one
  Federation& who = federation(std::move(input));
  Request request = probe();
  request.layout = 78;
  for (const auto& entry : all(who.ask(kAll, std::move(request)))) {
    EXPECT_THAT(entry.second.failure, HasSubstr("another network"));
  }
  EXPECT_EQ(runs, 0);
}

TEST_P(FederationContract, ASessionKeepsTheWorkbench) {
  std::atomic<int> opened{0};
  LocalFederationInput input = quadratic::federation_input(world_, 2, 2);
  input.open = [&, open = input.open](std::span<const ClientId> ids, const Request& request) {
    ++opened;
    return open(ids, request);
  };
  Federation& who = federation(std::move(input));
  {
    Session session(who);
    for (int ask = 1; ask <= 4; ++ask) {
      // The state lives on the workbench, so it keeps counting although no reply is accepted.
      for (const auto& entry : all(session.ask(kAll, probe()), false)) {
        EXPECT_EQ(entry.second.body.number("count"), ask);
      }
    }
    EXPECT_EQ(opened, 3);
    // Clients that are not asked leave the session; the others stay.
    const std::vector<ClientId> some{5, 1, 2};
    for (const auto& entry : all(session.ask(some, probe()), false)) EXPECT_EQ(entry.second.body.number("count"), 5);
    const auto back = all(session.ask(std::vector<ClientId>{0, 1}, probe()), false);
    EXPECT_THAT(back.at(0).failure, HasSubstr("no longer in the session"));
    EXPECT_EQ(back.at(1).body.number("count"), 6);
  }
  EXPECT_TRUE(world_.states.empty());
  for (const auto& entry : all(who.ask(kAll, probe()), false)) EXPECT_EQ(entry.second.body.number("count"), 1);
}

TEST_P(FederationContract, AClientThatFailsLeavesTheSession) {
  Federation& who = federation(quadratic::federation_input(world_, 1, 1));
  Session session(who);
  all(session.ask(kAll, probe()), false);
  EXPECT_FALSE(all(session.ask(kAll, probe({{"throws", 3}})), false).at(3).ok());
  const std::vector<ClientId> others{0, 1, 2, 4, 5};
  for (const auto& entry : all(session.ask(others, probe()), false)) EXPECT_EQ(entry.second.body.number("count"), 3);
  EXPECT_FALSE(all(session.ask(kAll, probe()), false).at(3).ok());
}

TEST_P(FederationContract, ASessionThatDoesNotFitIsSplit) {
  Federation& who = federation(quadratic::federation_input(world_, 6, 1));
  Session session(who);
  for (int ask = 1; ask <= 2; ++ask) {
    for (const auto& entry : all(session.ask(kAll, probe({{"room", 3}})), false)) {
      EXPECT_EQ(entry.second.body.number("count"), ask);
      EXPECT_EQ(entry.second.body.number("batch"), 3);
    }
  }
}

TEST_P(FederationContract, ThreeAsksWithOwnMessagesAreFedAvgOfScaledUpdates) {
  Federation& who = federation();
  const auto round = [&](Algorithm& algorithm) {
    const auto mean = Aggregations::make("mean");
    std::vector<Member> cohort;
    for (const ClientId client : kAll) cohort.push_back({client, 1});
    at::Tensor model = torch::linspace(-1, 1, 4, at::kFloat);
    algorithm.round({who, *mean, cohort, model, 1, 1});
    return model;
  };
  toy::ThreeAsks toy;
  const auto fedavg = Algorithms::make("fedavg");
  EXPECT_TRUE(torch::equal(round(toy), round(*fedavg)));
  toy.factor = [](ClientId client) { return client == 4 ? 1.0 : 0.0; };
  // Only client 4's update remains, with its weight of 9 / 45.
  const Client& client = world_.clients[4];
  const at::Tensor start = torch::linspace(-1, 1, 4, at::kFloat), centre = torch::arange(4, at::kFloat) / 10;
  const at::Tensor update = (centre - start) * (1 - std::pow(0.9, client.steps)) * (9.0 / 45);
  EXPECT_TRUE(torch::allclose(round(toy), start + update, 1e-6, 1e-6));
}

TEST_P(FederationContract, RepliesMayBeDroppedOrOutliveTheFederation) {
  Federation& who = federation(quadratic::federation_input(world_, 1, 1));
  { (void)who.ask(kAll, probe()).next(); }
  EXPECT_EQ(all(who.ask(kAll, probe()), false).size(), 6U);
  if (GetParam()) return;
  Replies held = who.ask(kAll, probe());
  ASSERT_TRUE(held.next()->ok());
  local_.reset();
  int others = 0;
  while (auto reply = held.next()) {
    ++others;
    EXPECT_TRUE(reply->ok() || reply->failure.find("closed") != std::string::npos);
  }
  EXPECT_EQ(others, 5);
}

}  // namespace
}  // namespace chorus::inline contract
