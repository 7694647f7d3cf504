#include "apps/serving/served_clients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <thread>

#include "core/console/quiet_console.h"
#include "tests/support.h"

namespace chorus::inline serving {
namespace {

/// What peers do is what a test says; what they get can be looked at.
class ScriptedTransport : public ServerTransport {
 public:
  bool send(PeerId peer, std::shared_ptr<const FrameBytes> bytes, bool) override {
    if (gone_.contains(peer)) return false;
    const std::string whole = bytes->flat();
    const Frame frame = decode_frame(whole).value();
    if (const auto* cohort = std::get_if<CohortFrame>(&frame)) cohorts_[peer] = *cohort;
    if (std::holds_alternative<SyncFrame>(frame)) events.push_back({TransportEvent::Kind::kFrame, peer, whole, {}});
    return true;
  }
  std::optional<TransportEvent> receive(std::optional<double>) override {
    if (events.empty()) return std::nullopt;
    TransportEvent event = std::move(events.front());
    events.pop_front();
    if (event.kind == TransportEvent::Kind::kLeft) gone_.insert(event.peer);
    return event;
  }
  const CohortFrame& last_cohort(PeerId peer) const { return cohorts_.at(peer); }

  std::deque<TransportEvent> events;

 private:
  std::map<PeerId, CohortFrame> cohorts_;
  std::set<PeerId> gone_;
};

/// A server, and clients whose every word is written by the test.
class ServedClientsTest : public testing::Test {
 protected:
  ServedClientsTest() {
    ServedClientsInput input{transport_, names_, {}, {}};
    input.job.run = 7;
    input.least = 2;
    input.refused = [this](const std::string& name, const std::string& why) { refusals_[name] = why; };
    clients_ = std::make_unique<ServedClients>(std::move(input));
  }
  void connect(PeerId peer, const std::string& name) {
    transport_.events.push_back({TransportEvent::Kind::kJoined, peer, {}, name});
    clients_->poll();
  }
  void get_ready(PeerId peer, const std::string& name) {
    say(peer, HelloFrame{{{.id = names_.id_of(name), .examples = 3}}});
    clients_->poll();
  }
  void leave(PeerId peer) { transport_.events.push_back({TransportEvent::Kind::kLeft, peer, {}, {}}); }
  void say(PeerId peer, const Frame& frame) {
    transport_.events.push_back({TransportEvent::Kind::kFrame, peer, encode_frame(frame), {}});
  }
  void reply(PeerId peer, ClientId client, std::size_t slot) {
    say(peer, ReplyFrame{transport_.last_cohort(peer).number, Reply{client, slot}, true});
  }
  Replies ask(std::vector<ClientId> cohort) { return clients_->ask(cohort, {.procedure = "train", .round = 1}); }

  const QuietConsole quiet_;
  TemporaryFolder folder_;
  ClientNames names_{folder_ / "fleet.json"};
  ScriptedTransport transport_;
  std::map<std::string, std::string> refusals_;
  std::unique_ptr<ServedClients> clients_;
};

TEST_F(ServedClientsTest, AClientThatDiesAfterItsReplyIsAskedToBuildOnItsState) {
  for (const auto& [peer, name] : {std::pair{1, "a"}, {2, "b"}}) {
    connect(peer, name);
    get_ready(peer, name);
  }
  Replies first = ask({0, 1});
  const std::uint64_t number = transport_.last_cohort(1).number;
  EXPECT_EQ(transport_.last_cohort(1).members.at(0).kept, 0U);
  reply(1, 0, 0);
  leave(1);
  first.next()->accept();  // the other reply is missing, so this waits
  EXPECT_TRUE(clients_->kept().empty());
  reply(2, 1, 1);
  first.next()->accept();
  EXPECT_FALSE(first.next());
  EXPECT_EQ(clients_->kept(), (std::map<ClientId, std::uint64_t>{{0, number}, {1, number}}));
  connect(3, "a");
  EXPECT_EQ(clients_->returning(30), 1U);
  get_ready(3, "a");
  EXPECT_EQ(clients_->returning(30), 0U);
  Replies second = ask({0, 1});
  EXPECT_EQ(transport_.last_cohort(3).members.at(0).kept, number);
}

TEST_F(ServedClientsTest, ARoundWithTooFewRepliesLeavesTheStatesAsTheyWere) {
  for (const auto& [peer, name] : {std::pair{1, "a"}, {2, "b"}}) {
    connect(peer, name);
    get_ready(peer, name);
  }
  Replies replies = ask({0, 1});
  reply(1, 0, 0);
  leave(2);
  replies.next()->accept();
  EXPECT_FALSE(replies.next()->ok());
  EXPECT_THROW((void)replies.next(), TooFewReplies);
  EXPECT_TRUE(clients_->kept().empty());
}

TEST_F(ServedClientsTest, WaitsForThoseWhoComeBackButNotForeverAndNotForThoseWhoRefuse) {
  connect(1, "a");
  EXPECT_EQ(clients_->returning(30), 0U) << "it has not taken part before";
  get_ready(1, "a");
  leave(1);
  clients_->poll();
  EXPECT_EQ(clients_->returning(0), 0U) << "that was too long ago";
  connect(2, "a");
  EXPECT_EQ(clients_->returning(30), 1U);
  say(2, ControlFrame{kRefuseTopic, "its policy says no", ""});
  clients_->poll();
  EXPECT_EQ(clients_->returning(30), 0U);
}

TEST_F(ServedClientsTest, NobodyWaitsForAClientThatConnectsAgainAndAgain) {
  constexpr double kGrace = 0.3;
  connect(1, "a");
  get_ready(1, "a");
  for (const PeerId peer : {2, 3}) {
    leave(peer - 1);
    connect(peer, "a");
    EXPECT_EQ(clients_->returning(kGrace), peer == 2 ? 1U : 0U) << "connection " << peer;
    std::this_thread::sleep_for(std::chrono::duration<double>(kGrace));
  }
  get_ready(3, "a");
  EXPECT_EQ(clients_->returning(kGrace), 0U);
  leave(3);
  connect(4, "a");
  EXPECT_EQ(clients_->returning(kGrace), 1U) << "it has taken part since";
}

TEST_F(ServedClientsTest, AClientWhosePolicyForbidsARequestIsNotAskedForAWhile) {
  for (const auto& [peer, name] : {std::pair{1, "a"}, {2, "b"}, {3, "c"}}) {
    connect(peer, name);
    get_ready(peer, name);
  }
  Replies replies = ask({0, 1});
  Reply no{.client = 0, .slot = 0};
  no.failure = std::string(kRefuses) + "its policy allows work from 04:00-05:00 only";
  say(1, ReplyFrame{transport_.last_cohort(1).number, no});
  Reply broken{.client = 1, .slot = 1};
  broken.failure = "its disk is full";
  say(2, ReplyFrame{transport_.last_cohort(2).number, broken});
  EXPECT_FALSE(replies.next()->ok());
  EXPECT_FALSE(replies.next()->ok());
  EXPECT_THROW((void)replies.next(), TooFewReplies);
  EXPECT_FALSE(clients_->roster().find(0)->alive);
  EXPECT_EQ(clients_->states().at(0).state, "resting");
  EXPECT_EQ(clients_->resting(), 1U);
  EXPECT_EQ(refusals_["a"], "its policy allows work from 04:00-05:00 only");
  EXPECT_EQ(clients_->returning(30), 0U);
  EXPECT_TRUE(clients_->roster().find(1)->alive) << "it may work again";
  EXPECT_EQ(clients_->roster().trainable(), 2U);
  leave(1);
  clients_->poll();
  EXPECT_EQ(clients_->states().at(0).state, "gone");
  EXPECT_EQ(clients_->resting(), 0U);
  connect(4, "a");
  get_ready(4, "a");
  EXPECT_EQ(clients_->roster().trainable(), 3U) << "its owner may have changed the policy";
}

// Split learning asks for a batch after the other; each reply is in time.
TEST_F(ServedClientsTest, AClientThatGoesOnForEverIsLeftOutAfterItsDeadline) {
  ServedClientsInput input{transport_, names_, {}, {}};
  input.job.run = 7;
  input.least = 1;
  input.deadline = 0.05;
  clients_ = std::make_unique<ServedClients>(std::move(input));
  for (const auto& [peer, name] : {std::pair{1, "a"}, {2, "b"}}) {
    connect(peer, name);
    get_ready(peer, name);
  }
  const std::vector<ClientId> both{0, 1};
  Session session(*clients_);
  std::string failure;
  for (int batch = 0; batch < 10 && failure.empty(); ++batch) {
    Replies replies = session.ask(both, {.procedure = "split/step", .round = 1});
    reply(2, 1, 1);
    EXPECT_TRUE(replies.next()->ok()) << "the other one is fast";
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    reply(1, 0, 0);
    failure = replies.next()->failure;
  }
  EXPECT_EQ(failure, "its part of the round took over 0.05 seconds");
  EXPECT_FALSE(clients_->roster().find(0)->alive) << "a repeated round goes without it";
  EXPECT_TRUE(clients_->roster().find(1)->alive);
}

// Case 26 of the list of faults: a certificate speaks for one name.
TEST_F(ServedClientsTest, Case26AClientThatClaimsAnotherIsIgnored) {
  (void)names_.id_of("a");
  (void)names_.id_of("b");
  connect(1, "a");
  say(1, HelloFrame{{{.id = 1, .examples = 3}}});
  say(1, HelloFrame{{{.id = 0, .name = "b", .examples = 3}}});
  clients_->poll();
  EXPECT_EQ(clients_->roster().trainable(), 0U);
  get_ready(1, "a");
  EXPECT_EQ(clients_->roster().trainable(), 1U);
  EXPECT_EQ(clients_->roster().find(0)->name, "a");
}

TEST_F(ServedClientsTest, NumbersOfRequestsAreNotUsedAgainByARestartedServer) {
  std::set<std::uint64_t> numbers;
  for (int restart = 0; restart < 20; ++restart) {
    ScriptedTransport transport;
    ServedClients clients({transport, names_, {}, {}});
    transport.events.push_back({TransportEvent::Kind::kJoined, 1, {}, "a"});
    transport.events.push_back(
        {TransportEvent::Kind::kFrame, 1, encode_frame(HelloFrame{{{.id = names_.id_of("a"), .examples = 3}}}), {}});
    clients.poll();
    (void)clients.ask(std::vector<ClientId>{0}, {.procedure = "train", .round = 1});
    EXPECT_TRUE(numbers.insert(transport.last_cohort(1).number).second);
  }
}

}  // namespace
}  // namespace chorus::inline serving
