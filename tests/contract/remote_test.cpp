// A server whose peers misbehave: every frame is spoken by hand, over the in-process transport.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "core/base/error.h"
#include "infrastructure/remote/remote_federation.h"
#include "infrastructure/transport/inproc/inproc.h"
#include "infrastructure/transport/wire/wire.h"

namespace chorus::inline contract {
namespace {

using testing::HasSubstr;

/// A client process that says exactly what a test wants.
struct Peer {
  explicit Peer(Transport& transport, std::vector<ClientId> hosts) : end(transport.connect()) {
    HelloFrame hello;
    for (const ClientId id : hosts) hello.clients.push_back({.id = id, .examples = 10});
    end->send(encode_frame(hello));
  }
  template <typename T>
  T expect() {
    const auto bytes = end->receive(5.0);
    EXPECT_TRUE(bytes.has_value());
    auto frame = decode_frame(*bytes);
    EXPECT_TRUE(frame.ok() && std::holds_alternative<T>(frame.value()));
    return std::get<T>(std::move(frame).value());
  }
  /// Reads a request and the cohort that follows.
  CohortFrame asked() {
    request = expect<RequestFrame>().request;
    return expect<CohortFrame>();
  }
  void reply(std::uint64_t number, ClientId client, std::size_t slot, double value = 1) {
    Reply said{client, slot};
    said.body.numbers["value"] = value;
    end->send(encode_frame(ReplyFrame{number, said, true}));
  }

  std::unique_ptr<ClientTransport> end;
  Request request;
};

class RemoteFederationTest : public testing::Test {
 protected:
  InprocTransport transport_;
  std::unique_ptr<ServerTransport> server_ = transport_.listen();
  RemoteFederation federation_{{*server_, 11, 22}};
  const std::vector<ClientId> both_{0, 1};
};

TEST_F(RemoteFederationTest, APeerThatNeverConfirmsIsNotAskedUntilItDoes) {
  RemoteFederationInput input{*server_, 11, 22};
  input.patience = 0.2;
  RemoteFederation federation(input);
  Peer peer(transport_, {0}), other(transport_, {1});
  ASSERT_TRUE(federation.wait_for(2, 5));
  Replies replies = federation.ask(both_, {.procedure = "train", .round = 1});
  const CohortFrame cohort = peer.asked();
  (void)other.asked();
  peer.reply(cohort.number, 0, 0);
  other.reply(cohort.number, 1, 1);
  for (int i = 0; i < 2; ++i) replies.next()->accept();
  other.end->send(encode_frame(SyncFrame{cohort.number}));
  EXPECT_FALSE(replies.next().has_value()) << "and it does not wait for ever";
  EXPECT_FALSE(federation.roster().find(0)->alive);
  EXPECT_TRUE(federation.roster().find(1)->alive);
  EXPECT_FALSE(federation.wait_for(2, 0.1));
  peer.end->send(encode_frame(SyncFrame{cohort.number}));
  EXPECT_TRUE(federation.wait_for(2, 5));
  EXPECT_TRUE(federation.roster().find(0)->alive);
}

TEST_F(RemoteFederationTest, StampsRequestsAndAcceptsReplies) {
  Peer peer(transport_, {0, 1});
  ASSERT_TRUE(federation_.wait_for(2, 5));
  Request request{.procedure = "train", .round = 3};
  request.own = {{.numbers = {{"own", 7}}}, {.numbers = {{"own", 8}}}};
  Replies replies = federation_.ask(both_, std::move(request));
  const CohortFrame cohort = peer.asked();
  EXPECT_EQ(peer.request.run, 11U);
  EXPECT_EQ(peer.request.layout, 22U);
  ASSERT_EQ(cohort.members.size(), 2U);
  EXPECT_EQ(cohort.members[1].own.number("own"), 8);
  peer.reply(cohort.number, 1, 1, 5);
  peer.reply(cohort.number, 0, 0, 4);
  auto first = replies.next();
  ASSERT_TRUE(first && first->ok());
  EXPECT_EQ(first->client, 1U);
  EXPECT_EQ(first->body.number("value"), 5);
  first->accept();
  const auto accepted = peer.expect<AcceptFrame>();
  EXPECT_EQ(accepted.number, cohort.number);
  EXPECT_EQ(accepted.slot, 1U);
  EXPECT_TRUE(replies.next()->ok());
  // The last reply is followed by the question whether the first one's state is kept.
  peer.end->send(encode_frame(SyncFrame{cohort.number}));
  EXPECT_FALSE(replies.next().has_value());
  EXPECT_EQ(peer.expect<SyncFrame>().number, cohort.number);
}

TEST_F(RemoteFederationTest, RepliesNobodyAskedForAreDropped) {
  Peer honest(transport_, {0}), liar(transport_, {1});
  ASSERT_TRUE(federation_.wait_for(2, 5));
  Replies replies = federation_.ask(both_, {.procedure = "train", .round = 1});
  const std::uint64_t number = honest.asked().number;
  (void)liar.asked();
  liar.reply(number, 0, 0, 666);      // another one's reply
  liar.reply(number, 1, 0, 666);      // in another one's slot
  liar.reply(number, 1, 99, 666);     // in no slot
  liar.reply(number + 1, 1, 1, 666);  // to a request that was never made
  liar.reply(number, 1, 1, 2);
  liar.reply(number, 1, 1, 666);  // twice
  honest.reply(number, 0, 0, 1);
  std::map<ClientId, double> values;
  while (auto reply = replies.next()) {
    ASSERT_TRUE(reply->ok()) << reply->failure;
    values[reply->client] = reply->body.number("value");
  }
  EXPECT_EQ(values, (std::map<ClientId, double>{{0, 1.0}, {1, 2.0}}));
}

TEST_F(RemoteFederationTest, APeerThatIsLostOrSpeaksNonsenseFailsItsClientsOnly) {
  auto honest = std::make_unique<Peer>(transport_, std::vector<ClientId>{0});
  Peer broken(transport_, {1}), gone(transport_, {2});
  ASSERT_TRUE(federation_.wait_for(3, 5));
  const std::vector<ClientId> cohort{0, 1, 2};
  Replies replies = federation_.ask(cohort, {.procedure = "train", .round = 1});
  const std::uint64_t number = honest->asked().number;
  broken.end->send("these are no frames");
  gone.end.reset();
  honest->reply(number, 0, 0);
  std::map<ClientId, std::string> failures;
  while (auto reply = replies.next()) failures[reply->client] = reply->failure;
  EXPECT_EQ(failures.at(0), "");
  EXPECT_THAT(failures.at(1), HasSubstr("connection is lost"));
  EXPECT_THAT(failures.at(2), HasSubstr("connection is lost"));
  EXPECT_FALSE(federation_.roster().find(2)->alive);
  EXPECT_EQ(federation_.roster().size_of(2), 0);
  // Asked again they fail at once; a client that comes back can be asked.
  EXPECT_FALSE(federation_.ask(std::vector<ClientId>{2}, {.procedure = "train", .round = 2}).next()->ok());
  Peer back(transport_, {2});
  ASSERT_TRUE(federation_.wait_for(2, 5));
  Replies again = federation_.ask(std::vector<ClientId>{2}, {.procedure = "train", .round = 3});
  back.reply(back.asked().number, 2, 0);
  EXPECT_TRUE(again.next()->ok());
}

TEST_F(RemoteFederationTest, NobodyWaitsBeyondADeadlineOrForMoreThanEnough) {
  Peer fast(transport_, {0}), slow(transport_, {1});
  ASSERT_TRUE(federation_.wait_for(2, 5));
  {
    Replies replies = federation_.ask(both_, {.procedure = "train", .round = 1, .deadline = 0.05});
    fast.reply(fast.asked().number, 0, 0);
    EXPECT_TRUE(replies.next()->ok());
    EXPECT_THAT(replies.next()->failure, HasSubstr("within 0.05 seconds"));
  }
  const std::uint64_t number = slow.asked().number;
  EXPECT_EQ(slow.expect<CancelFrame>().number, number);
  slow.reply(number, 1, 1, 666);  // too late: it must not count for the next request
  Replies replies = federation_.ask(both_, {.procedure = "train", .round = 2, .enough = 1});
  fast.reply(fast.asked().number, 0, 0, 3);
  const auto first = replies.next();
  EXPECT_EQ(first->body.number("value"), 3);
  EXPECT_THAT(replies.next()->failure, HasSubstr("1 others were faster"));
}

TEST_F(RemoteFederationTest, ASecondProcessCannotTakeAClientsPlace) {
  Peer first(transport_, {0});
  ASSERT_TRUE(federation_.wait_for(1, 5));
  Peer second(transport_, {0, 5});
  ASSERT_TRUE(federation_.wait_for(2, 5));
  Replies replies = federation_.ask(std::vector<ClientId>{0}, {.procedure = "train", .round = 1});
  first.reply(first.asked().number, 0, 0, 9);
  EXPECT_EQ(replies.next()->body.number("value"), 9);
}

TEST_F(RemoteFederationTest, AClientIsWhoItsCertificateSays) {
  const auto hello = [&](const std::string& identity, ClientId id, const std::string& name) {
    auto end = transport_.connect_as(identity);
    HelloFrame frame;
    frame.clients.push_back({.id = id, .name = name, .examples = 10});
    end->send(encode_frame(frame));
    return end;
  };
  auto a = hello("clinic-a", 0, "");
  const auto b = hello("clinic-b", 1, "clinic-b/ward-3");
  ASSERT_TRUE(federation_.wait_for(2, 5));
  EXPECT_EQ(federation_.roster().find(0)->name, "clinic-a");
  EXPECT_EQ(federation_.roster().find(1)->name, "clinic-b/ward-3");
  const auto other_name = hello("clinic-c", 2, "clinic-a");
  const auto prefix = hello("clinic-c", 3, "clinic-cc");
  EXPECT_FALSE(federation_.wait_for(3, 0.2));
  // An id stays its first owner's, also while that one is away.
  a.reset();
  const auto thief = hello("clinic-c", 0, "clinic-c");
  EXPECT_FALSE(federation_.wait_for(3, 0.2));  // handles all that has arrived
  EXPECT_FALSE(federation_.roster().find(0)->alive);
  EXPECT_FALSE(federation_.wait_for(2, 0.2));
  const auto back = hello("clinic-a", 0, "clinic-a");
  EXPECT_TRUE(federation_.wait_for(2, 5));
}

TEST_F(RemoteFederationTest, AnnouncementsOfAnImpossibleSizeAreRefused) {
  Peer peer(transport_, {});
  HelloFrame hello;
  hello.clients.push_back({.id = 1, .examples = -3});
  peer.end->send(encode_frame(hello));
  EXPECT_FALSE(federation_.wait_for(1, 0.3));
}

}  // namespace
}  // namespace chorus::inline contract
