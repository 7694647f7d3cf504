#include "apps/serving/client_board.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace chorus::inline serving {
namespace {

using testing::ElementsAre;

Roster roster_of(const std::vector<std::string>& names, const std::string& away = "") {
  std::vector<RosterEntry> members;
  for (std::size_t i = 0; i < names.size(); ++i) {
    RosterEntry entry;
    entry.id = static_cast<ClientId>(i);
    entry.name = names[i];
    entry.alive = names[i] != away;
    members.push_back(entry);
  }
  return Roster(std::move(members));
}

std::vector<std::string> states_of(const ClientBoard& board, const Roster& roster, ClientBoard::Time now) {
  std::vector<std::string> states;
  for (const ClientNow& state : board.states(roster, now)) states.push_back(state.state);
  return states;
}

Reply reply_of(ClientId client, std::string failure = "") {
  Reply reply;
  reply.client = client;
  reply.failure = std::move(failure);
  return reply;
}

TEST(ClientBoard, SaysWhoWorksWhoIsLateAndWhoIsGone) {
  const auto at = [](double seconds) {
    return ClientBoard::Time{} +
           std::chrono::duration_cast<ClientBoard::Time::duration>(std::chrono::duration<double>(1000 + seconds));
  };
  const Roster roster = roster_of({"a", "b", "c", "d", "e"}, "e");
  ClientBoard board;
  EXPECT_THAT(states_of(board, roster, at(0)), ElementsAre("joined", "joined", "joined", "joined", "gone"));
  const std::vector<ClientId> cohort{0, 1, 2};
  board.asked(cohort, at(0));
  EXPECT_THAT(states_of(board, roster, at(50)), ElementsAre("working", "working", "working", "joined", "gone"))
      << "while nobody has replied, nobody is late";
  board.replied(reply_of(0), at(10));
  board.replied(reply_of(1), at(12));
  EXPECT_THAT(states_of(board, roster, at(20)), ElementsAre("joined", "joined", "working", "joined", "gone"));
  EXPECT_THAT(states_of(board, roster, at(25)), ElementsAre("joined", "joined", "late", "joined", "gone"));
  EXPECT_EQ(board.states(roster, at(25))[2].seconds, 25);
  EXPECT_EQ(board.states(roster, at(25))[0].seconds, 10);
  board.replied(reply_of(2, "2 others were faster"), at(26));
  EXPECT_THAT(states_of(board, roster, at(26)), ElementsAre("joined", "joined", "late", "joined", "gone"));
  board.asked(std::vector<ClientId>{2, 3}, at(30));
  EXPECT_THAT(states_of(board, roster, at(30)), ElementsAre("joined", "joined", "working", "working", "gone"));
  board.asked(std::vector<ClientId>{0}, at(40));
  EXPECT_THAT(states_of(board, roster, at(40)), ElementsAre("working", "joined", "late", "late", "gone"));
}

TEST(ClientBoard, NobodyIsLateInTheBackground) {
  const auto at = [](int seconds) { return ClientBoard::Time{} + std::chrono::seconds(1000 + seconds); };
  const Roster roster = roster_of({"a", "b", "c"});
  ClientBoard board;
  board.asked(std::vector<ClientId>{0, 1}, at(0), true);
  board.replied(reply_of(0), at(1), true);
  board.asked(std::vector<ClientId>{2}, at(1), true);
  board.replied(reply_of(2), at(2), true);
  board.asked(std::vector<ClientId>{0}, at(2), true);
  EXPECT_THAT(states_of(board, roster, at(60)), ElementsAre("working", "working", "joined"));
  EXPECT_EQ(board.states(roster, at(60))[1].seconds, 60);
  // Scores are asked of everybody; those who train are left out.
  board.asked(std::vector<ClientId>{0, 1, 2}, at(60));
  for (const ClientId busy : {0U, 1U}) board.replied(reply_of(busy, "it still works"), at(60));
  EXPECT_THAT(states_of(board, roster, at(60)), ElementsAre("working", "working", "working"));
  board.replied(reply_of(2), at(61));
  board.replied(reply_of(1, "its connection is lost"), at(62), true);
  EXPECT_THAT(states_of(board, roster, at(90)), ElementsAre("working", "late", "joined"));
  EXPECT_EQ(board.states(roster, at(90))[0].seconds, 88);
}

TEST(ClientBoard, AQuickRoundMakesNobodyLate) {
  ClientBoard board;
  const auto now = ClientBoard::Time{} + std::chrono::seconds(1);
  board.asked(std::vector<ClientId>{0, 1}, now);
  board.replied(reply_of(0), now + std::chrono::milliseconds(10));
  EXPECT_THAT(states_of(board, roster_of({"a", "b"}), now + std::chrono::milliseconds(900)),
              ElementsAre("joined", "working"));
}

TEST(ClientBoard, TheFileSaysWhatTheServerDoesAndWhoRefuses) {
  ServerStatus status;
  status.state = "waiting";
  status.waiting_for = "clients";
  status.refusals["mallory"] = std::string(1000, 'x');
  const std::vector<ClientNow> clients{{"a", "late", 2.25}};
  const auto json = nlohmann::json::parse(server_json(status, clients));
  EXPECT_EQ(json["state"], "waiting");
  EXPECT_EQ(json["clients"][0]["seconds"], 2.3);
  EXPECT_EQ(json["clients"][1]["state"], "refuses");
  EXPECT_LT(json["clients"][1]["why"].get<std::string>().size(), 400U);
}

}  // namespace
}  // namespace chorus::inline serving
