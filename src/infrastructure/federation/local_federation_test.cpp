#include "infrastructure/federation/local_federation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "core/base/error.h"
#include "infrastructure/federation/local_federation_fixture_test.h"

namespace chorus::inline federation {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(LocalFederationTest, CutsTheCohortInOrderAndSendsEachReplyToItsSlot) {
  LocalFederation who(input(9, 3));
  const std::vector<ClientId> cohort{8, 2, 5, 0, 7};
  Request request = probe();
  for (const ClientId id : cohort) request.own.push_back({.numbers = {{"own", 100.0 + id}}});
  const auto replies = all(who.ask(cohort, std::move(request)));
  EXPECT_THAT(place.opened, ElementsAre(ElementsAre(8, 2, 5), ElementsAre(0, 7)));
  // The bench sorts its clients its own way; replies and own messages follow the cohort.
  EXPECT_THAT(column(replies, "id"), ElementsAre(8, 2, 5, 0, 7));
  EXPECT_THAT(column(replies, "own"), ElementsAre(108, 102, 105, 100, 107));
  EXPECT_THAT(column(replies, "together"), ElementsAre(3, 3, 3, 2, 2));
  EXPECT_EQ(place.alive, 0);
}

TEST_F(LocalFederationTest, WorkersChangeNoReply) {
  LocalFederation one(input(40, 3, 1)), many(input(40, 3, 5));
  std::vector<ClientId> cohort;
  for (ClientId id = 0; id < 40; ++id) cohort.push_back((id * 7) % 40);
  const auto expected = all(one.ask(cohort, probe()));
  for (int repeat = 0; repeat < 5; ++repeat) {
    const auto replies = all(many.ask(cohort, probe()));
    ASSERT_EQ(replies.size(), expected.size());
    for (std::size_t i = 0; i < replies.size(); ++i) {
      EXPECT_EQ(replies[i].client, expected[i].client);
      EXPECT_EQ(replies[i].body.numbers, expected[i].body.numbers);
      EXPECT_TRUE(torch::equal(replies[i].body.tensor("update"), expected[i].body.tensor("update")));
    }
  }
}

TEST_F(LocalFederationTest, WorkersComputeSideBySide) {
  std::mutex mutex;
  std::condition_variable met;
  int inside = 0;
  bool together = false;
  before_answers = [&](const Request&, const Workbench&) {
    std::unique_lock lock(mutex);
    ++inside;
    if (inside == 3) together = true;
    met.notify_all();
    met.wait_for(lock, std::chrono::seconds(10), [&] { return together; });
  };
  LocalFederation who(input(6, 2, 3));
  EXPECT_EQ(all(who.ask(six, probe())).size(), 6U);
  EXPECT_TRUE(together);
}

TEST_F(LocalFederationTest, FewRepliesWaitToBeRead) {
  std::atomic<int> batches{0};
  before_answers = [&](const Request&, const Workbench&) { ++batches; };
  LocalFederation who(input(30, 1, 1));
  std::vector<ClientId> cohort(30);
  for (ClientId id = 0; id < 30; ++id) cohort[id] = id;
  Replies replies = who.ask(cohort, probe());
  ASSERT_TRUE(replies.next().has_value());
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  // One was read, two wait, and one more may have been begun before there were two.
  EXPECT_LE(batches, 4);
  int rest = 0;
  while (replies.next()) ++rest;
  EXPECT_EQ(rest, 29);
  EXPECT_EQ(batches, 30);
}

TEST_F(LocalFederationTest, AnswersThatFailFailTheirClientOnly) {
  LocalFederationInput given = input();
  given.roster = Roster::of_sizes(std::vector<double>{1, 0, 1, 1, 1, 1});
  LocalFederation who(std::move(given));
  const auto replies = all(who.ask(six, probe({{"fails", 3}})));
  EXPECT_THAT(replies[1].failure, HasSubstr("no training data"));
  EXPECT_EQ(replies[3].failure, "its loss is not a number");
  EXPECT_TRUE(replies[3].body.tensors.empty());
  EXPECT_FALSE(replies[3].on_accept);
  for (const std::size_t slot : {0, 2, 4, 5}) EXPECT_TRUE(replies[slot].ok());
  EXPECT_THAT(place.opened, ElementsAre(ElementsAre(0, 2, 3), ElementsAre(4, 5)));  // nobody opens for client 1
}

TEST_F(LocalFederationTest, AThrowingClientIsFoundInFewRuns) {
  std::atomic<int> runs{0};
  before_answers = [&](const Request&, const Workbench& bench) {
    ++runs;
    for (const ClientId id : bench.clients()) {
      if (id == 5) throw std::runtime_error("its texts are strange");
    }
  };
  LocalFederation who(input(8, 8));
  const auto replies = all(who.ask(std::vector<ClientId>{0, 1, 2, 3, 4, 5, 6, 7}, probe()));
  for (const Reply& reply : replies) EXPECT_EQ(reply.ok(), reply.client != 5) << reply.failure;
  EXPECT_THAT(replies[5].failure, HasSubstr("its texts are strange"));
  EXPECT_EQ(runs, 7);  // 8; 4 and 4; 2 and 2; 1 and 1
}

TEST_F(LocalFederationTest, AfterRunningOutOfMemoryBatchesStaySmall) {
  before_answers = [&](const Request&, const Workbench& bench) {
    if (bench.clients().size() > 3) throw c10::OutOfMemoryError({__func__, __FILE__, 0}, "CUDA out of memory");
  };
  LocalFederation who(input(12, 12));
  std::vector<ClientId> cohort(12);
  for (ClientId id = 0; id < 12; ++id) cohort[id] = id;
  const auto first = all(who.ask(cohort, probe()));
  EXPECT_THAT(column(first, "together"), Each(3));
  EXPECT_EQ(place.opened.size(), 7U);  // 12; 6 and 6; four times 3
  place.opened.clear();
  EXPECT_THAT(column(all(who.ask(cohort, probe())), "together"), Each(3));
  EXPECT_EQ(place.opened.size(), 4U);  // and nothing is tried in vain
}

TEST_F(LocalFederationTest, AUsersMistakeEndsTheAsk) {
  before_answers = [&](const Request&, const Workbench&) { throw ConfigError("trainer.lr is -1"); };
  LocalFederation who(input());
  EXPECT_THROW(all(who.ask(six, probe())), ConfigError);
  before_answers = nullptr;
  EXPECT_THAT(column(all(who.ask(six, probe())), "ask"), Each(1));  // the federation goes on
}

TEST_F(LocalFederationTest, WaitsForAReply) {
  LocalFederation who(input());
  Replies replies = who.ask(six, probe());
  who.wait(10);
  EXPECT_TRUE(replies.ready());
  while (replies.next()) {
  }
  EXPECT_TRUE(replies.ready());
}

TEST_F(LocalFederationTest, NobodyIsLateInOneProcess) {
  LocalFederation who(input());
  Request request = probe();
  request.enough = 2;
  request.deadline = 0;
  // The emulated clock decides who is late (EmulatedFederation); the machine's own speed must not change results.
  EXPECT_THAT(column(all(who.ask(six, std::move(request))), "id"), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST_F(LocalFederationTest, StateIsKeptFromAcceptedRepliesEvenAfterTheFederation) {
  before_answers = [&](const Request&, const Workbench& bench) {
    auto& changed = const_cast<Workbench&>(bench);
    for (std::size_t i = 0; i < bench.clients().size(); ++i) {
      changed.state(i)["w"] = torch::full({1}, static_cast<float>(bench.clients()[i]), at::kFloat);
    }
  };
  std::vector<Reply> replies;
  {
    LocalFederation who(input());
    replies = all(who.ask(six, probe()));
  }
  EXPECT_TRUE(place.stored.empty());
  replies[4].accept();
  replies[1].accept();
  ASSERT_EQ(place.stored.size(), 2U);
  EXPECT_EQ(place.stored.at(4).at("w").item<float>(), 4);
  EXPECT_EQ(place.stored.at(1).at("w").item<float>(), 1);
}

TEST_F(LocalFederationTest, SessionsKeepWhatProceduresPutOnTheBench) {
  LocalFederation who(input(6, 2, 2));
  {
    Session session(who);
    EXPECT_THAT(column(all(session.ask(six, probe())), "ask"), Each(1));
    EXPECT_THAT(column(all(session.ask(six, probe())), "ask"), Each(2));
    EXPECT_EQ(place.opened.size(), 3U);
    EXPECT_EQ(place.alive, 3);
    // Asked in another order and without half of them, the counts follow their clients.
    EXPECT_THAT(column(all(session.ask(std::vector<ClientId>{5, 3, 1}, probe())), "ask"), Each(3));
    EXPECT_THAT(column(all(session.ask(std::vector<ClientId>{1}, probe())), "ask"), Each(4));
    EXPECT_EQ(place.alive, 1);  // benches whose clients have all left are gone
    const auto back = all(session.ask(std::vector<ClientId>{1, 5}, probe()));
    EXPECT_EQ(back[0].body.number("ask"), 5);
    EXPECT_THAT(back[1].failure, HasSubstr("no longer in the session"));
  }
  EXPECT_EQ(place.alive, 0);
}

TEST_F(LocalFederationTest, TwoSessionsDoNotMeet) {
  LocalFederation who(input());
  Session first(who), second(who);
  EXPECT_NE(first.id(), second.id());
  all(first.ask(six, probe()));
  all(first.ask(six, probe()));
  EXPECT_THAT(column(all(second.ask(six, probe())), "ask"), Each(1));
  EXPECT_THAT(column(all(who.ask(six, probe())), "ask"), Each(1));
  EXPECT_THAT(column(all(first.ask(six, probe())), "ask"), Each(3));
}

TEST_F(LocalFederationTest, ALaterAskOfASessionThatFailsIsNotRepeated) {
  LocalFederation who(input(6, 3));
  Session session(who);
  all(session.ask(six, probe()));
  std::atomic<int> runs{0};
  before_answers = [&](const Request&, const Workbench& bench) {
    ++runs;
    for (const ClientId id : bench.clients()) {
      if (id == 1) throw std::runtime_error("broken");
    }
  };
  // The procedure may have changed what the batch keeps, so all three have left.
  const auto replies = all(session.ask(six, probe()));
  EXPECT_EQ(runs, 2);
  for (const Reply& reply : replies) EXPECT_EQ(reply.ok(), reply.client >= 3);
  before_answers = nullptr;
  const auto after = all(session.ask(six, probe()));
  for (const Reply& reply : after) EXPECT_EQ(reply.ok(), reply.client >= 3);
  EXPECT_EQ(after[4].body.number("ask"), 3);
}

/// Fails to read or send what it is told to; otherwise doubles updates and counts in the client's state.
class StrictGate : public Gate {
 public:
  GateTotals send(Message& message, const GateMoment& moment) const override {
    if (moment.client == refuses) throw DataError("its update has numbers that are not finite");
    message.tensors.at("update").mul_(2);
    moment.memory()["sent"] = torch::ones({1});
    return {};
  }
  GateTotals receive(Message& message, const GateMoment& moment) const override {
    if (unreadable) throw DataError("the model cannot be unpacked");
    if (message.numbers.contains("own")) message.numbers["own"] += static_cast<double>(moment.client);
    return {};
  }
  ClientId refuses = 99;
  bool unreadable = false;
};

TEST_F(LocalFederationTest, AGateSeesEveryMessageOnce) {
  StrictGate gate;
  gate.refuses = 2;
  LocalFederationInput given = input();
  given.gate = &gate;
  LocalFederation who(std::move(given));
  Request request = probe();
  for (std::size_t i = 0; i < six.size(); ++i) request.own.push_back({.numbers = {{"own", 10}}});
  const auto replies = all(who.ask(six, std::move(request)));
  // Own messages are filed under the client's number plus one: 0 is what everybody gets.
  EXPECT_THAT(column(replies, "own"), ElementsAre(11, 12, -1, 14, 15, 16));
  EXPECT_THAT(replies[2].failure, HasSubstr("not finite"));
  EXPECT_TRUE(torch::equal(replies[3].body.tensor("update"), torch::full({2}, 6, at::kFloat)));
  EXPECT_EQ(replies[3].finite, "");  // what a gate has changed nobody has checked
  replies[3].accept();
  EXPECT_TRUE(place.stored.at(3).contains("sent"));

  gate.unreadable = true;
  for (const Reply& reply : all(who.ask(six, probe()))) EXPECT_EQ(reply.failure, "the model cannot be unpacked");
}

TEST_F(LocalFederationTest, WithoutAGateAFiniteUpdateNeedNotBeCheckedAgain) {
  LocalFederation who(input());
  for (const Reply& reply : all(who.ask(six, probe()))) EXPECT_EQ(reply.finite, "update");
}

TEST_F(LocalFederationTest, BytesAreThoseOfTheMessagesBeforeAGateChangesThem) {
  LocalFederation who(input());
  Request request = probe({{"x", 1}});
  const std::uint64_t shared = request.body.bytes();
  for (std::size_t i = 0; i < 6; ++i) {
    request.own.emplace_back();
    if (i == 3) request.own.back().tensors["more"] = torch::zeros({100}, at::kFloat);
  }
  const std::uint64_t more = request.own[3].bytes();
  EXPECT_GE(more, 400U);
  const auto replies = all(who.ask(six, std::move(request)));
  EXPECT_EQ(replies[0].bytes_down, shared);
  EXPECT_EQ(replies[3].bytes_down, shared + more);
  EXPECT_EQ(replies[0].bytes_up, replies[0].body.bytes());
  EXPECT_EQ(who.traffic().down, 6 * shared + more);
}

TEST_F(LocalFederationTest, CohortsThatCannotBeAskedAreBugs) {
  LocalFederation who(input());
  EXPECT_THROW(who.ask(std::vector<ClientId>{1, 1}, probe()), InternalError);
  EXPECT_THROW(who.ask(std::vector<ClientId>{6}, probe()), InternalError);
  Request request = probe();
  request.own.emplace_back();
  EXPECT_THROW(who.ask(six, std::move(request)), InternalError);
  EXPECT_FALSE(who.ask(std::vector<ClientId>{}, probe()).next().has_value());
}

}  // namespace
}  // namespace chorus::inline federation
