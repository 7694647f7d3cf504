// A server against frames that are damaged, out of order or too large. tests/contract/remote_test.cpp has the rest.
#include "infrastructure/remote/remote_federation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <limits>
#include <thread>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "infrastructure/transport/inproc/inproc.h"
#include "infrastructure/transport/wire/wire.h"

namespace chorus::inline remote {
namespace {

using testing::HasSubstr;

class MalformedFrames : public testing::Test {
 protected:
  /// A client process that hosts one client of the roster.
  std::unique_ptr<ClientTransport> join(ClientId id) {
    auto end = transport_.connect();
    end->send(encode_frame(HelloFrame{{{.id = id, .examples = 3}}}));
    EXPECT_TRUE(federation_.wait_for(++hosted_, 5));
    return end;
  }
  Replies ask(std::vector<ClientId> cohort) { return federation_.ask(cohort, {.procedure = "train", .round = 1}); }
  /// The number of the request that a peer has received.
  static std::uint64_t number_at(ClientTransport& end) { return cohort_at(end).number; }
  static CohortFrame cohort_at(ClientTransport& end) {
    for (;;) {
      const auto bytes = end.receive(5.0);
      if (!bytes) break;
      auto frame = decode_frame(*bytes);
      if (frame.ok() && std::holds_alternative<CohortFrame>(frame.value())) {
        return std::get<CohortFrame>(std::move(frame).value());
      }
    }
    ADD_FAILURE() << "no cohort came";
    return {};
  }
  static std::string reply_bytes(std::uint64_t number, ClientId client, std::size_t slot, bool keeps = false) {
    Reply reply{client, slot};
    reply.body.tensors["update"] = torch::arange(6, at::kFloat).reshape({2, 3});
    reply.body.numbers["examples"] = 3;
    return encode_frame(ReplyFrame{number, reply, keeps});
  }

  InprocTransport transport_;
  std::unique_ptr<ServerTransport> server_ = transport_.listen();
  RemoteFederation federation_{{*server_, 1, 2}};
  std::size_t hosted_ = 0;
};

TEST_F(MalformedFrames, AnIdThatWouldExhaustMemoryIsRefused) {
  // Sizes are a dense vector indexed by id: the largest id would take 34 GB.
  for (const ClientId id : {ClientId{1} << 24, std::numeric_limits<ClientId>::max()}) {
    auto hostile = transport_.connect();
    hostile->send(encode_frame(HelloFrame{{{.id = id, .examples = 1}}}));
    ASSERT_FALSE(federation_.wait_for(1, 0.2));
  }
  EXPECT_EQ(federation_.roster().size(), 0U);
}

TEST_F(MalformedFrames, AClientThatIsNamedTwiceCountsOnce) {
  auto end = transport_.connect();
  end->send(encode_frame(HelloFrame{{{.id = 4, .examples = 1}, {.id = 4, .examples = 9}, {.id = 5, .examples = 2}}}));
  ASSERT_TRUE(federation_.wait_for(2, 5));
  EXPECT_EQ(federation_.roster().size(), 2U);
  EXPECT_EQ(federation_.roster().find(4)->examples, 1);
}

TEST_F(MalformedFrames, InvalidExampleCountsAreRefused) {
  for (const double examples : {-1.0, std::nan(""), HUGE_VAL, 1e300}) {
    auto end = transport_.connect();
    end->send(encode_frame(HelloFrame{{{.id = 7, .examples = examples}}}));
    EXPECT_FALSE(federation_.wait_for(1, 0.05)) << examples;
  }
}

TEST_F(MalformedFrames, ServerFramesFromAPeerDropIt) {
  const std::vector<Frame> frames{RequestFrame{1, {}}, CohortFrame{1, {}}, AcceptFrame{1, 0}, CancelFrame{1},
                                  EndSessionFrame{1}};
  const auto honest = join(0);
  for (const Frame& frame : frames) {
    auto liar = transport_.connect();
    liar->send(encode_frame(HelloFrame{{{.id = 1, .examples = 3}}}));
    ASSERT_TRUE(federation_.wait_for(2, 5));
    Replies replies = ask({1});
    liar->send(encode_frame(frame));
    EXPECT_THAT(replies.next()->failure, HasSubstr("connection is lost")) << frame.index();
    EXPECT_FALSE(federation_.roster().find(1)->alive);
  }
  EXPECT_TRUE(federation_.roster().find(0)->alive);
}

TEST_F(MalformedFrames, ATensorOfTheWrongShapeDropsThePeer) {
  const auto honest = join(0);
  const auto liar = join(1);
  Replies replies = ask({0, 1});
  const std::uint64_t number = number_at(*liar);
  std::string bytes = reply_bytes(number, 1, 1);
  // The shape [2, 3] is packed as two varints.
  const std::size_t at = bytes.find(std::string("\x12\x02\x02\x03", 4));
  ASSERT_NE(at, std::string::npos);
  bytes[at + 3] = 4;
  liar->send(bytes);
  honest->send(reply_bytes(number, 0, 0));
  std::map<ClientId, std::string> failures;
  while (auto reply = replies.next()) failures[reply->client] = reply->failure;
  EXPECT_EQ(failures.at(0), "");
  EXPECT_THAT(failures.at(1), HasSubstr("connection is lost"));
}

using OverlappingRequests = MalformedFrames;

TEST_F(OverlappingRequests, RepliesReachTheRequestThatTheyAnswer) {
  const auto slow = join(0), quick = join(1);
  const ClientId first = 0, second = 1;
  Request request{.procedure = "train", .round = 1};
  request.background = true;
  Replies early = federation_.ask({&first, 1}, request);
  request.round = 2;
  Replies later = federation_.ask({&second, 1}, request);
  const std::uint64_t number_of_slow = number_at(*slow), number_of_quick = number_at(*quick);
  EXPECT_FALSE(early.ready() || later.ready());
  quick->send(reply_bytes(number_of_quick, 1, 0, true));
  while (!later.ready()) federation_.wait(5);
  EXPECT_FALSE(early.ready());
  const auto answer = later.next();
  ASSERT_TRUE(answer && answer->ok());
  answer->accept();
  EXPECT_FALSE(later.next()) << "nobody waits for the client to confirm";
  // A synchronous request may be read to its end meanwhile, and reads what belongs to others.
  Replies third = ask({1});
  const std::uint64_t number = number_at(*quick);
  slow->send(reply_bytes(number_of_slow, 0, 0));
  quick->send(reply_bytes(number, 1, 0));
  EXPECT_TRUE(third.next()->ok());
  EXPECT_FALSE(third.next());
  ASSERT_TRUE(early.ready());
  EXPECT_TRUE(early.next()->ok());
}

TEST_F(OverlappingRequests, ALostClientAndADeadlineEndTheirRequestOnly) {
  auto lost = join(0);
  const auto late = join(1), good = join(2);
  Request request{.procedure = "train", .round = 1};
  request.background = true;
  std::vector<Replies> replies;
  for (const ClientId client : {0U, 1U, 2U}) {
    request.deadline = client == 1 ? std::optional(0.05) : std::nullopt;
    replies.push_back(federation_.ask({&client, 1}, request));
  }
  lost.reset();
  while (!replies[0].ready() || !replies[1].ready()) federation_.wait(0.02);
  EXPECT_THAT(replies[0].next()->failure, HasSubstr("connection is lost"));
  EXPECT_THAT(replies[1].next()->failure, HasSubstr("did not reply within"));
  EXPECT_FALSE(replies[2].ready());
  good->send(reply_bytes(number_at(*good), 2, 0));
  while (!replies[2].ready()) federation_.wait(5);
  EXPECT_TRUE(replies[2].next()->ok());
}

TEST_F(OverlappingRequests, AClientThatWorksInTheBackgroundIsAskedForNothingElse) {
  const auto busy = join(0), unread = join(1), free = join(2);
  Request request{.procedure = "train", .round = 1};
  request.background = true;
  std::optional<Replies> training = federation_.ask(std::vector<ClientId>{0, 1}, request);
  const std::uint64_t number = number_at(*unread);
  unread->send(reply_bytes(number, 1, 1, true));
  while (!training->ready()) federation_.wait(5);
  // The acceptance of a reply that is not read yet must not come after another request.
  Replies scores = federation_.ask(std::vector<ClientId>{0, 1, 2}, {.procedure = "evaluate", .round = 2});
  for (const ClientId client : {0U, 1U}) {
    const auto reply = scores.next();
    EXPECT_EQ(reply->client, client);
    EXPECT_THAT(reply->failure, HasSubstr("still works"));
  }
  free->send(reply_bytes(number_at(*free), 2, 2));
  EXPECT_TRUE(scores.next()->ok());
  EXPECT_FALSE(scores.next());
  EXPECT_TRUE(training->next()->ok());
  training.reset();
  Replies again = ask({0, 1});
  EXPECT_GT(number_at(*busy), 0U);
  EXPECT_GT(number_at(*unread), number);
}

// More than a client that works can hold.
TEST_F(OverlappingRequests, TheEndOfASessionIsToldToThoseWhoWereAskedInIt) {
  const auto busy = join(0), free = join(1);
  Request request{.procedure = "train", .round = 1};
  request.background = true;
  const Replies training = federation_.ask(std::vector<ClientId>{0}, request);
  EXPECT_GT(number_at(*busy), 0U);
  for (std::uint64_t round = 1; round <= 100; ++round) {
    Session session(federation_);
    Replies replies = session.ask(std::vector<ClientId>{1}, {.procedure = "secure/begin", .round = round});
    free->send(reply_bytes(number_at(*free), 1, 0));
    EXPECT_TRUE(replies.next()->ok());
  }
  const auto bytes = free->receive(5.0);
  ASSERT_TRUE(bytes);
  EXPECT_TRUE(std::holds_alternative<EndSessionFrame>(decode_frame(*bytes).value()));
  EXPECT_FALSE(busy->receive(0.2));
}

TEST_F(OverlappingRequests, PollLeavesWhatIsTooMuchToTheTransport) {
  RemoteFederationInput input{*server_, 1, 2};
  input.unread = 1;
  RemoteFederation federation(input);
  std::vector<std::unique_ptr<ClientTransport>> ends;
  for (const ClientId id : {0U, 1U, 2U}) {
    ends.push_back(transport_.connect());
    ends.back()->send(encode_frame(HelloFrame{{{.id = id, .examples = 3}}}));
  }
  ASSERT_TRUE(federation.wait_for(3, 5));
  Request request{.procedure = "train", .round = 1};
  request.background = true;
  request.deadline = 0.2;
  std::vector<Replies> replies;
  for (const ClientId client : {0U, 1U, 2U}) replies.push_back(federation.ask({&client, 1}, request));
  for (const ClientId client : {0U, 1U}) ends[client]->send(reply_bytes(number_at(*ends[client]), client, 0));
  federation.poll(0.3);
  EXPECT_TRUE(replies[0].ready());
  EXPECT_FALSE(replies[1].ready()) << "it waits in the transport, and its deadline stands still";
  EXPECT_FALSE(replies[2].ready());
  const auto fourth = transport_.connect();
  fourth->send(encode_frame(HelloFrame{{{.id = 3, .examples = 3}}}));
  EXPECT_TRUE(federation.wait_for(4, 5)) << "who waits for clients sees them come";
  EXPECT_TRUE(replies[0].next()->ok());
  EXPECT_TRUE(replies[1].next()->ok());
  EXPECT_THAT(replies[2].next()->failure, HasSubstr("did not reply within"));
}

TEST_F(OverlappingRequests, AReplyThatCameInTimeIsNotLateBecauseTheServerWasBusy) {
  const auto prompt = join(0), late = join(1);
  Request request{.procedure = "train", .round = 1};
  request.background = true;
  request.deadline = 0.05;
  Replies replies = federation_.ask(std::vector<ClientId>{0, 1}, request);
  prompt->send(reply_bytes(number_at(*prompt), 0, 0));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  ASSERT_TRUE(replies.ready());
  EXPECT_TRUE(replies.next()->ok());
  EXPECT_THAT(replies.next()->failure, HasSubstr("did not reply within"));
}

TEST_F(MalformedFrames, ADamagedReplyDoesNotAffectOthers) {
  const auto honest = join(0);
  int lost = 0, used = 0;
  for (std::uint64_t trial = 0; trial < 60; ++trial) {
    RandomStream stream({.seed = trial, .purpose = "damage"});
    auto damaged = transport_.connect();
    damaged->send(encode_frame(HelloFrame{{{.id = 1, .examples = 3}}}));
    ASSERT_TRUE(federation_.wait_for(2, 5));
    Replies replies = ask({0, 1});
    const std::uint64_t number = number_at(*damaged);
    std::string bytes = reply_bytes(number, 1, 1);
    bytes[stream.below(bytes.size())] ^= static_cast<char>(1U << stream.below(8));
    if (trial % 5 == 0) bytes.resize(stream.below(bytes.size()));
    damaged->send(bytes);
    damaged.reset();  // leaves, so that a dropped frame ends as a lost connection
    honest->send(reply_bytes(number, 0, 0));
    while (auto reply = replies.next()) {
      if (reply->client == 0) {
        ASSERT_TRUE(reply->ok()) << reply->failure;
        EXPECT_TRUE(torch::equal(reply->body.tensor("update"), torch::arange(6, at::kFloat).reshape({2, 3})));
      } else {
        ++(reply->ok() ? used : lost);
      }
    }
  }
  EXPECT_EQ(used + lost, 60);
  EXPECT_GT(lost, 10);
  EXPECT_GT(used, 5);  // a flipped bit of an element is still a value: algorithms check those
}

using LostAcceptances = MalformedFrames;

TEST_F(LostAcceptances, TheNextRequestNamesTheStateThatCounts) {
  auto end = join(0);
  std::vector<std::uint64_t> numbers;
  for (const bool accepted : {true, false}) {  // the second reply is late or surplus
    Replies replies = ask({0});
    numbers.push_back(number_at(*end));
    end->send(reply_bytes(numbers.back(), 0, 0, true));
    if (const auto reply = replies.next(); accepted) {
      end.reset();  // the process dies, or its connection, before it hears of it
      reply->accept();
    }
    EXPECT_FALSE(replies.next());
    if (accepted) {
      federation_.poll();
      hosted_ = 0;
      end = join(0);
    }
  }
  Replies replies = ask({0});
  const CohortFrame cohort = cohort_at(*end);
  EXPECT_EQ(cohort.members.at(0).kept, numbers[0]);
  EXPECT_EQ(federation_.kept(), (std::map<ClientId, std::uint64_t>{{0, numbers[0]}}));
  end->send(reply_bytes(cohort.number, 0, 0));
  EXPECT_FALSE(replies.next()->on_accept) << "a client without a state has nothing to keep";
  EXPECT_FALSE(replies.next());
  federation_.restore_kept({});  // a restarted server goes back to the beginning
  replies = ask({0});
  EXPECT_EQ(cohort_at(*end).members.at(0).kept, 0U);
}

TEST_F(MalformedFrames, AClientThatRestsIsNotAskedUntilItsTimeIsOver) {
  const auto end = join(0);
  federation_.rest(0, 0.2);
  EXPECT_FALSE(federation_.roster().find(0)->alive);
  EXPECT_FALSE(federation_.wait_for(1, 0.05));
  EXPECT_TRUE(federation_.wait_for(1, 5));
  EXPECT_TRUE(federation_.roster().find(0)->alive);
}

TEST_F(MalformedFrames, AnInvalidReplyTimeCountsAsZero) {
  const auto end = join(0);
  Replies replies = ask({0});
  Reply reply{0, 0};
  reply.seconds = -5;
  end->send(encode_frame(ReplyFrame{number_at(*end), reply}));
  EXPECT_GE(replies.next()->seconds, 0);
}

TEST_F(MalformedFrames, AnAskIsInterruptedWhileItWaits) {
  bool stop = false;
  InprocTransport transport;
  const auto server = transport.listen();
  RemoteFederation federation({*server, 1, 2, [&] { return stop; }});
  const auto end = transport.connect();
  end->send(encode_frame(HelloFrame{{{.id = 0, .examples = 3}}}));
  ASSERT_TRUE(federation.wait_for(1, 5));
  Replies replies = federation.ask(std::vector<ClientId>{0}, {.procedure = "train", .round = 1});
  stop = true;
  EXPECT_THROW((void)replies.next(), Interrupted);
  EXPECT_THROW((void)federation.wait_for(2, 5), Interrupted);
}

/// Notes what is handed over.
class NotingServer : public ServerTransport {
 public:
  explicit NotingServer(ServerTransport& inner) : inner_(inner) {}
  bool send(PeerId peer, std::shared_ptr<const FrameBytes> frame, bool more) override {
    sent.push_back(frame);
    return inner_.send(peer, std::move(frame), more);
  }
  std::optional<TransportEvent> receive(std::optional<double> seconds) override { return inner_.receive(seconds); }
  std::vector<std::shared_ptr<const FrameBytes>> sent;

 private:
  ServerTransport& inner_;
};

TEST(Broadcast, IsEncodedOnceAndItsModelIsNotCopied) {
  InprocTransport transport;
  const auto inner = transport.listen();
  NotingServer server(*inner);
  RemoteFederation federation({server, 1, 2});
  std::vector<std::unique_ptr<ClientTransport>> ends;
  for (const ClientId id : {0U, 1U, 2U}) {
    ends.push_back(transport.connect());
    ends.back()->send(encode_frame(HelloFrame{{{.id = id, .examples = 3}}}));
  }
  ASSERT_TRUE(federation.wait_for(3, 5));
  Request request{.procedure = "train", .round = 1};
  request.body.tensors["model"] = torch::ones({100'000});
  const void* values = request.body.tensors.at("model").data_ptr();
  const std::vector<ClientId> cohort{0, 1, 2};
  const Replies replies = federation.ask(cohort, std::move(request));
  std::erase_if(server.sent, [](const auto& frame) { return frame->size() < 400'000; });
  ASSERT_EQ(server.sent.size(), 3U);
  EXPECT_EQ(server.sent[0], server.sent[1]);
  EXPECT_EQ(server.sent[0], server.sent[2]);
  const auto parts = server.sent[0]->parts();
  EXPECT_TRUE(std::any_of(parts.begin(), parts.end(), [&](std::string_view part) { return part.data() == values; }));
}

}  // namespace
}  // namespace chorus::inline remote
