// What a client process holds for a server at most.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "infrastructure/remote/client_service.h"
#include "infrastructure/remote/client_service_fixture_test.h"

namespace chorus::inline remote {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(ClientServiceTest, LeavesAServerThatSendsMoreRequestsThanItCanHold) {
  limits_.frames = 3;
  start();
  for (std::uint64_t number = 1; number <= 3; ++number) say(RequestFrame{number, {.procedure = "train", .round = 1}});
  say(CohortFrame{2, {{3, 0}}});  // which makes room for another
  EXPECT_EQ(next<ReplyFrame>().number, 2U);
  say(AcceptFrame{2, 0});
  say(RequestFrame{4, {.procedure = "train", .round = 1}});
  sync();
  say(RequestFrame{5, {.procedure = "train", .round = 1}});
  const auto refusal = next<ControlFrame>();
  EXPECT_EQ(refusal.topic, "refuse");
  EXPECT_THAT(refusal.text, HasSubstr("more requests than it can hold: at most 3"));
  expect_end();
}

TEST_F(ClientServiceTest, LeavesAServerThatAcceptsNoReplies) {
  limits_.frames = 3;
  start();
  for (std::uint64_t number = 1; number <= 3; ++number) {
    ask(number, {{3, 0}});
    EXPECT_EQ(next<ReplyFrame>().number, number);
  }
  say(RequestFrame{4, {.procedure = "train", .round = 1}});  // each reply keeps a state until it is accepted
  EXPECT_EQ(next<ControlFrame>().topic, "refuse");
  expect_end();
}

TEST_F(ClientServiceTest, LeavesAServerThatEndsNoSessions) {
  limits_.frames = 3;
  start();
  for (std::uint64_t round = 1; round <= 4; ++round) {
    say(RequestFrame{round, {.procedure = "train", .round = round, .session = round}});
  }
  EXPECT_EQ(next<ControlFrame>().topic, "refuse");
  expect_end();
}

TEST_F(ClientServiceTest, RequestsOfOtherRoundsMakeRoom) {
  limits_.frames = 1;
  start();
  for (std::uint64_t round = 1; round <= 5; ++round) say(RequestFrame{round, {.procedure = "train", .round = round}});
  sync();
  say(CohortFrame{5, {{3, 0}}});
  EXPECT_EQ(next<ReplyFrame>().number, 5U);
}

TEST_F(ClientServiceTest, LeavesAServerThatFillsItsMemory) {
  limits_.bytes = 10000;
  start();
  Request large{.procedure = "train", .round = 1};
  large.body.tensors["model"] = torch::zeros({1000}, at::kFloat);
  say(RequestFrame{1, large});
  say(RequestFrame{1, large});  // the same again
  say(RequestFrame{2, large});
  sync();
  say(RequestFrame{3, large});
  EXPECT_THAT(next<ControlFrame>().text, HasSubstr("1e+04 bytes"));
  expect_end();
}

TEST_F(ClientServiceTest, LeavesAServerThatSendsTooMuchWhileItsClientsWork) {
  limits_.frames = 4;
  clients_.during = [this](ClientId id) {
    if (id != 3) return;
    for (int i = 0; i < 6; ++i) say(ControlFrame{"noise", "", ""});
  };
  start();
  ask(1, {{3, 0}, {8, 1}});
  EXPECT_EQ(next<ControlFrame>().topic, "refuse");
  expect_end();
}

TEST_F(ClientServiceTest, ACancelledRequestMakesRoom) {
  limits_.frames = 1;
  start();
  for (std::uint64_t number = 1; number <= 5; ++number) {
    say(RequestFrame{number, {.procedure = "train", .round = 1}});
    say(CancelFrame{number});
  }
  ask(6, {{3, 0}}, "stateless");
  EXPECT_EQ(next<ReplyFrame>().number, 6U);
}

// An asynchronous server steps, and sums securely, many times while one slow client trains.
TEST_F(ClientServiceTest, SessionsOfOthersThatEndDuringWorkTakeNoRoom) {
  limits_.frames = 4;
  clients_.during = [this](ClientId id) {
    if (id != 3) return;
    for (std::uint64_t session = 100; session < 200; ++session) say(EndSessionFrame{session});
    say(RequestFrame{2, {.procedure = "train", .round = 2, .session = 7}});
    say(EndSessionFrame{7});  // of a session that has not begun here
    for (std::uint64_t session = 200; session < 300; ++session) say(EndSessionFrame{session});
  };
  start();
  ask(1, {{3, 0}, {8, 1}});
  EXPECT_EQ(next<ReplyFrame>().reply.client, 3U);
  EXPECT_EQ(next<ReplyFrame>().reply.client, 8U);
  sync();
  EXPECT_THAT(clients_.ended, ElementsAre(7));
}

}  // namespace
}  // namespace chorus::inline remote
