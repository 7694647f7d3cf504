// How work for clients of this process ends early.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "core/base/error.h"
#include "core/base/stop_point.h"
#include "infrastructure/federation/local_federation_fixture_test.h"

namespace chorus::inline federation {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(LocalFederationTest, AStopRequestInterruptsTheAsk) {
  std::atomic<bool> stop{false};
  LocalFederationInput given = input(6, 1);
  given.stop = [&] { return stop.load(); };
  before_answers = [&](const Request&, const Workbench&) { stop = true; };
  LocalFederation who(std::move(given));
  EXPECT_THROW(all(who.ask(six, probe())), Interrupted);
  EXPECT_EQ(place.opened.size(), 1U);
}

// Works until somebody stops it.
void work_on(std::atomic<bool>& begun) {
  begun = true;
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < std::chrono::seconds(10)) {
    stop_point();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ADD_FAILURE() << "nobody stopped it";
}

TEST_F(LocalFederationTest, DroppedRepliesStopWorkThatHasBegun) {
  LocalFederation who(input());
  std::atomic<bool> begun = false;
  before_answers = [&](const Request&, const Workbench&) { work_on(begun); };
  {
    const Replies replies = who.ask(six, probe());
    while (!begun) std::this_thread::yield();
    EXPECT_FALSE(replies.ready());
  }
  EXPECT_EQ(place.alive, 0);
  before_answers = nullptr;
  EXPECT_THAT(column(all(who.ask(six, probe())), "id"), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST_F(LocalFederationTest, ASessionIsOverForClientsThatWereStopped) {
  LocalFederation who(input(2));
  Session session(who);
  const std::vector<ClientId> two{0, 1};
  EXPECT_THAT(column(all(session.ask(two, probe())), "ask"), ElementsAre(1, 1));
  std::atomic<bool> begun = false;
  before_answers = [&](const Request&, const Workbench&) { work_on(begun); };
  {
    const Replies replies = session.ask(two, probe());
    while (!begun) std::this_thread::yield();
  }
  before_answers = nullptr;
  for (const Reply& reply : all(session.ask(two, probe()))) EXPECT_THAT(reply.failure, HasSubstr("no longer"));
}

TEST_F(LocalFederationTest, ClosingStopsWorkAndSaysSo) {
  std::atomic<int> runs{0};
  before_answers = [&](const Request&, const Workbench&) { ++runs; };
  auto who = std::make_unique<LocalFederation>(input(6, 1));
  Replies replies = who->ask(six, probe());
  ASSERT_TRUE(replies.next()->ok());
  who.reset();
  const int done = runs;
  EXPECT_LT(done, 6);
  std::set<ClientId> closed;
  while (auto reply = replies.next()) {
    if (!reply->ok()) {
      EXPECT_THAT(reply->failure, HasSubstr("closed before it replied"));
      closed.insert(reply->client);
    }
  }
  EXPECT_EQ(closed.size(), static_cast<std::size_t>(6 - done));
  EXPECT_EQ(runs, done);
}

}  // namespace
}  // namespace chorus::inline federation
