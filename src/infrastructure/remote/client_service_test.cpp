// The client half against a server that is careless, hostile or gone; tests write every frame by hand.
#include "infrastructure/remote/client_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "infrastructure/remote/client_service_fixture_test.h"

namespace chorus::inline remote {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(ClientServiceTest, SendsTheReasonInsteadOfAReplyThatIsWithheld) {
  std::size_t bytes = 0;
  hooks_.withheld = [&](std::size_t size) {
    bytes = size;
    return std::string("too many bytes");
  };
  start();
  ask(1, {{3, 0}});
  const auto reply = next<ReplyFrame>();
  EXPECT_EQ(reply.reply.failure, "too many bytes");
  EXPECT_TRUE(reply.reply.body.numbers.empty());
  say(AcceptFrame{1, 0});
  sync();
  EXPECT_TRUE(clients_.accepted.empty());
  EXPECT_GT(bytes, 0U);
}

TEST_F(ClientServiceTest, EndsWhenItsOwnDiskIsFull) {
  clients_.during = [](ClientId) { throw WorldError("state: cannot be written: No space left on device"); };
  start();
  ask(1, {{3, 0}});
  expect_end();
  EXPECT_THAT(failure_, HasSubstr("No space left on device"));
}

TEST_F(ClientServiceTest, AnnouncesItsClients) {
  start();
  ASSERT_EQ(hello_.clients.size(), 4U);
  EXPECT_EQ(hello_.clients[0].id, 3U);
  EXPECT_EQ(hello_.clients[0].examples, 7);
  EXPECT_FALSE(hello_.clients[1].examples.has_value());
}

TEST_F(ClientServiceTest, KeepsNumbersOfExamplesToItself) {
  hooks_.states_sizes = false;
  start();
  ASSERT_EQ(hello_.clients.size(), 4U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_FALSE(hello_.clients[i].examples.has_value());
  EXPECT_EQ(hello_.clients[3].examples, 0) << "it cannot train, which the server must know";
}

TEST_F(ClientServiceTest, RepliesCarryTheSlotsOfTheWholeCohort) {
  start();
  ask(5, {{9, 40, {.numbers = {{"own", 1.5}}}}, {3, 2, {}}});
  const auto first = next<ReplyFrame>(), second = next<ReplyFrame>();
  EXPECT_EQ(first.number, 5U);
  EXPECT_EQ(first.reply.client, 9U);
  EXPECT_EQ(first.reply.slot, 40U);
  EXPECT_EQ(first.reply.body.number("own"), 1.5);
  EXPECT_EQ(second.reply.slot, 2U);
  EXPECT_EQ(second.reply.body.number("own"), -1);
}

TEST_F(ClientServiceTest, SessionsEndWithTheServer) {
  start();
  for (const std::uint64_t session : {4U, 5U}) {
    say(RequestFrame{session, {.procedure = "train", .round = 1, .session = session}});
    say(CohortFrame{session, {{3, 0, {}}}});
    (void)next<ReplyFrame>();
  }
  say(EndSessionFrame{4});
  sync();
  EXPECT_THAT(clients_.ended, ElementsAre(4U));
  server_.reset();
  thread_.join();
  EXPECT_THAT(clients_.ended, ElementsAre(4U, 5U)) << "the next server has a session 5 of its own";
}

TEST_F(ClientServiceTest, OnlyAcceptedRepliesAreKeptAndEachOnce) {
  start();
  ask(5, {{3, 0, {}}, {8, 1, {}}, {9, 2, {}}});
  for (int i = 0; i < 3; ++i) (void)next<ReplyFrame>();
  say(AcceptFrame{5, 1});
  say(AcceptFrame{5, 1});   // again
  say(AcceptFrame{5, 77});  // no such slot
  say(AcceptFrame{6, 0});   // no such request
  sync();
  EXPECT_THAT(clients_.accepted, ElementsAre(8));
}

TEST_F(ClientServiceTest, SaysWhetherAStateGoesWithAReplyAndHearsWhichOneIsMeant) {
  std::vector<std::uint64_t> kept;
  hooks_.asked = [&](const CohortFrame& cohort) { kept.push_back(cohort.members.at(0).kept); };
  start();
  ask(5, {{3, 0, {}, 4}});
  EXPECT_TRUE(next<ReplyFrame>().keeps);
  ask(6, {{3, 0, {}}}, "stateless");
  EXPECT_FALSE(next<ReplyFrame>().keeps);
  EXPECT_THAT(kept, ElementsAre(4, 0));
}

TEST_F(ClientServiceTest, ALaterRoundDropsEarlierReplies) {
  start();
  ask(5, {{3, 0, {}}}, "train", 1);
  (void)next<ReplyFrame>();
  ask(6, {{3, 0, {}}}, "train", 2);
  (void)next<ReplyFrame>();
  say(AcceptFrame{5, 0});
  say(AcceptFrame{6, 0});
  sync();
  EXPECT_THAT(clients_.accepted, ElementsAre(3));
  // The old request is gone, too.
  say(CohortFrame{5, {{3, 0, {}}}});
  EXPECT_THAT(next<ReplyFrame>().reply.failure, HasSubstr("without its request"));
}

TEST_F(ClientServiceTest, InvalidRequestsFailAndTheServiceContinues) {
  start();
  say(CohortFrame{1, {{3, 0, {}}}});
  EXPECT_THAT(next<ReplyFrame>().reply.failure, HasSubstr("without its request"));
  ask(2, {{3, 0, {}}, {4, 1, {}}});
  for (int i = 0; i < 2; ++i) EXPECT_THAT(next<ReplyFrame>().reply.failure, HasSubstr("not here"));
  ask(3, {{3, 0, {}}, {3, 1, {}}});
  for (int i = 0; i < 2; ++i) EXPECT_THAT(next<ReplyFrame>().reply.failure, HasSubstr("once at a time"));
  ask(4, {{3, 0, {}}}, "unknown");
  EXPECT_THAT(next<ReplyFrame>().reply.failure, HasSubstr("no procedure"));
  ask(5, {});  // nobody
  EXPECT_EQ(clients_.asks, 0);
  ask(6, {{8, 0, {}}});
  EXPECT_TRUE(next<ReplyFrame>().reply.ok());
}

TEST_F(ClientServiceTest, AFailureFailsTheClientsThatHaveNotReplied) {
  start();
  ask(1, {{3, 5, {}}, {8, 6, {}}, {9, 7, {}}}, "breaks");
  EXPECT_TRUE(next<ReplyFrame>().reply.ok());
  for (const std::size_t slot : {6U, 7U}) {
    const Reply failed = next<ReplyFrame>().reply;
    EXPECT_EQ(failed.slot, slot);
    EXPECT_EQ(failed.failure, "the disk is gone");
  }
  say(AcceptFrame{1, 5});
  say(AcceptFrame{1, 6});  // a failed reply has no state
  sync();
  EXPECT_THAT(clients_.accepted, ElementsAre(3));
}

TEST_F(ClientServiceTest, ACancelledCohortSendsNoMoreReplies) {
  start();
  clients_.during = [&](ClientId client) {
    if (client == 8) say(CancelFrame{1});
  };
  ask(1, {{3, 0, {}}, {8, 1, {}}, {9, 2, {}}});
  EXPECT_EQ(next<ReplyFrame>().reply.client, 3U);
  ask(2, {{9, 0, {}}});
  const auto reply = next<ReplyFrame>();  // no more replies of the first request precede it
  EXPECT_EQ(reply.number, 2U);
  EXPECT_EQ(reply.reply.client, 9U);
}

TEST_F(ClientServiceTest, ACancelStopsClientsThatWork) {
  start();
  ask_for_ever(1);
  say(CancelFrame{7});
  sync();
  EXPECT_FALSE(clients_.stopped);
  say(CancelFrame{1});
  ask(2, {{9, 0, {}}});
  EXPECT_EQ(next<ReplyFrame>().number, 2U);
  EXPECT_TRUE(clients_.stopped);
}

TEST_F(ClientServiceTest, ClientsThatWorkAreStoppedWithTheService) {
  std::atomic<bool> stop = false;
  hooks_.stop = [&] { return stop.load(); };
  start();
  ask_for_ever(1);
  stop = true;
  expect_end();
  EXPECT_TRUE(clients_.stopped);
}

TEST_F(ClientServiceTest, ClientsThatWorkAreStoppedWhenTheServerIsGone) {
  start();
  ask_for_ever(1);
  server_.reset();
  expect_end();
  EXPECT_TRUE(clients_.stopped);
}

TEST_F(ClientServiceTest, RequestsCancelledDuringWorkAreSkipped) {
  start();
  clients_.during = [&](ClientId) {
    if (clients_.asks > 1) return;
    for (std::uint64_t number = 2; number <= 4; ++number) {  // a server that repeats a round again and again
      ask(number, {{9, 0, {}}});
      say(CancelFrame{number});
    }
    say(CancelFrame{1});
    ask(5, {{9, 0, {}}});
  };
  ask(1, {{3, 0, {}}});
  EXPECT_EQ(next<ReplyFrame>().number, 5U);
  EXPECT_EQ(clients_.asks, 2) << "of 1, which was running, and 5";
}

TEST_F(ClientServiceTest, RequestsCancelledBeforeTheirTurnAreSkipped) {
  hooks_.sending = [&](const Frame& frame, const FrameBytes&) {  // what the server says before this end reads again
    const auto* reply = std::get_if<ReplyFrame>(&frame);
    if (reply == nullptr || reply->number != 1) return;
    ask(2, {{9, 0, {}}});
    say(CancelFrame{2});
    ask(3, {{9, 0, {}}});
  };
  start();
  ask(1, {{3, 0, {}}});
  EXPECT_EQ(next<ReplyFrame>().number, 1U);
  EXPECT_EQ(next<ReplyFrame>().number, 3U);
  EXPECT_EQ(clients_.asks, 2) << "of 1 and 3";
}

/// Gives frames in order; the last one is not there yet when it is asked for without patience.
class LateTransport : public ClientTransport {
 public:
  explicit LateTransport(std::deque<std::string> frames) : frames_(std::move(frames)) {}
  bool send(FrameBytes) override { return true; }
  std::optional<std::string> receive(std::optional<double> seconds) override {
    if (frames_.empty() || (frames_.size() == 1 && seconds == 0.0)) return std::nullopt;
    std::string frame = std::move(frames_.front());
    frames_.pop_front();
    return frame;
  }
  bool connected() const override { return !frames_.empty(); }

 private:
  std::deque<std::string> frames_;
};

TEST_F(ClientServiceTest, ALargeRequestIsCancelledByWhatComesAMomentLater) {
  Request large{.procedure = "train", .round = 1};
  large.body.tensors["model"] = torch::zeros({5'000'000}, at::kFloat);
  const auto asked = [&](const Request& request) {
    LateTransport late({encode_frame(RequestFrame{1, request}), encode_frame(CohortFrame{1, {{3, 0, {}}}}),
                        encode_frame(CancelFrame{1})});
    EchoClients clients;
    ClientService(late, clients).run();
    return clients.asks;
  };
  EXPECT_EQ(asked(large), 0);
  EXPECT_EQ(asked({.procedure = "train", .round = 1}), 1) << "a small one loses no time";
}

TEST_F(ClientServiceTest, ACancelConcernsItsOwnRequestOnly) {
  start();
  ask(1, {{3, 0, {}}, {8, 1, {}}});
  EXPECT_EQ(next<ReplyFrame>().number, 1U);
  say(RequestFrame{2, {.procedure = "train", .round = 1}});
  say(CancelFrame{3});
  say(CohortFrame{2, {{9, 0, {}}}});
  EXPECT_EQ(next<ReplyFrame>().number, 1U);
  EXPECT_EQ(next<ReplyFrame>().number, 2U);
}

TEST_F(ClientServiceTest, WhatArrivesDuringWorkIsHandledInOrderAfterwards) {
  start();
  clients_.during = [&](ClientId client) {
    if (client != 3) return;
    ask(2, {{9, 0, {}}});  // the next request, while this one is worked on
    say(SyncFrame{99});
  };
  ask(1, {{3, 0, {}}, {8, 1, {}}});
  EXPECT_EQ(next<SyncFrame>().number, 99U);  // at once
  EXPECT_EQ(next<ReplyFrame>().reply.client, 3U);
  EXPECT_EQ(next<ReplyFrame>().reply.client, 8U);
  EXPECT_EQ(next<ReplyFrame>().number, 2U);
}

TEST_F(ClientServiceTest, SessionsEnd) {
  start();
  say(EndSessionFrame{12});
  sync();
  EXPECT_THAT(clients_.ended, ElementsAre(12));
}

TEST_F(ClientServiceTest, EndsWhenTheServerIsGone) {
  start();
  server_.reset();
  expect_end();
}

TEST_F(ClientServiceTest, EndsOnInvalidFrames) {
  start();
  say_bytes("these are no frames");
  expect_end();
  EXPECT_EQ(clients_.asks, 0);
}

TEST_F(ClientServiceTest, EndsWhenTheServerClaimsToBeAClient) {
  start();
  say(ReplyFrame{1, {}});
  expect_end();
}

TEST_F(ClientServiceTest, EndsOnInvalidFramesDuringWork) {
  start();
  clients_.during = [&](ClientId) { say_bytes(std::string(40, '\xff')); };
  ask(1, {{3, 0, {}}, {8, 1, {}}});
  expect_end();
  EXPECT_TRUE(clients_.accepted.empty());
}

TEST_F(ClientServiceTest, NoDamageToARequestCanCrashIt) {
  Request request{.procedure = "train", .round = 1};
  request.body.tensors["model"] = torch::arange(8, at::kFloat);
  const std::string whole = encode_frame(RequestFrame{1, request});
  for (std::uint64_t trial = 0; trial < 40; ++trial) {
    RandomStream stream({.seed = trial, .purpose = "damage"});
    start();
    std::string bytes = whole;
    bytes[stream.below(bytes.size())] = static_cast<char>(stream.below(256));
    if (trial % 4 == 0) bytes.resize(stream.below(bytes.size()));
    say_bytes(bytes);
    // A frame that still parses is answered; one that does not ends the service. Either way it returns.
    (void)server_->send(peer_, std::make_shared<const FrameBytes>(encode_frame(CohortFrame{1, {{3, 0, {}}}})));
    TearDown();
    end_.reset();
    transport_ = InprocTransport();
    server_ = transport_.listen();
  }
}

}  // namespace
}  // namespace chorus::inline remote
