#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "core/console/quiet_console.h"
#include "infrastructure/transport/mailbox/mail_peer.h"
#include "infrastructure/transport/mailbox/mailbox.h"

namespace chorus::inline transport_mailbox {
namespace {

using testing::HasSubstr;
using Kind = TransportEvent::Kind;

constexpr double kSoon = 5;  // seconds within which something must happen
constexpr std::uint64_t kSession = 7;

/// What an end under test posts, and what a test hands to it.
struct Script {
  struct Posted {
    std::string to;
    Post post;
    std::string data;
  };
  std::mutex mutex;
  std::vector<Posted> posted;
  Mailbox::Receive receive;

  void give(const std::string& from, const std::string& bytes) { receive({from, from, bytes}); }
  void give(const std::string& from, const Post& post, const std::string& data = "") {
    give(from, encode_post(post, data));
  }
  std::size_t count(Post::Kind kind, const std::string& to) {
    const std::lock_guard lock(mutex);
    return static_cast<std::size_t>(std::count_if(
        posted.begin(), posted.end(), [&](const Posted& each) { return each.post.kind == kind && each.to == to; }));
  }
  /// The newest letter of a kind, once there is one.
  Posted wait_for(Post::Kind kind, const std::string& to) {
    for (int i = 0; i < 500; ++i) {
      {
        const std::lock_guard lock(mutex);
        for (auto each = posted.rbegin(); each != posted.rend(); ++each) {
          if (each->post.kind == kind && each->to == to) return *each;
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << "no letter of this kind was posted";
    return {};
  }
};

class ScriptedMailbox final : public Mailbox {
 public:
  explicit ScriptedMailbox(Script& script) : script_(script) {}
  void open(Receive receive) override { script_.receive = std::move(receive); }
  void post(const std::string& to, std::string bytes) override {
    std::string_view data;
    const auto post = decode_post(bytes, data);
    const std::lock_guard lock(script_.mutex);
    script_.posted.push_back({to, post.value(), std::string(data)});
  }
  std::string server() const override { return "server"; }

 private:
  Script& script_;
};

class MailServerTest : public testing::Test {
 protected:
  void start() { server_ = make_mail_server(std::make_unique<ScriptedMailbox>(script_), config_); }
  void open(const std::string& name, std::uint64_t session = kSession) {
    script_.give(name, {Post::Kind::kOpen, session});
  }
  void join(const std::string& name) {
    open(name);
    expect(Kind::kJoined);
  }
  void chunk(const std::string& name, std::uint64_t sequence, std::uint64_t size, std::uint64_t offset,
             std::size_t bytes) {
    script_.give(name, {Post::Kind::kChunk, kSession, sequence, size, offset}, std::string(bytes, 'x'));
  }
  void expect(Kind kind) {
    const auto event = server_->receive(kSoon);
    ASSERT_TRUE(event.has_value());
    EXPECT_EQ(event->kind, kind);
  }
  /// What a client is told with the farewell.
  std::string farewell_to(const std::string& name, Verdict verdict) {
    const Script::Posted bye = script_.wait_for(Post::Kind::kBye, name);
    EXPECT_EQ(static_cast<Verdict>(bye.post.sequence), verdict);
    return bye.data;
  }

  const QuietConsole quiet_;
  Script script_;
  MailConfig config_{.chunk = 1000};
  std::unique_ptr<ServerTransport> server_;
};

TEST_F(MailServerTest, ARevokedClientIsDroppedWithinASecondAndStaysOut) {
  std::atomic<bool> revoked = false;
  config_.refusal = [&](const std::string& name) { return name == "b" && revoked ? "it is revoked" : ""; };
  start();
  join("a");
  join("b");
  revoked = true;
  const auto left = server_->receive(1);
  ASSERT_TRUE(left && left->kind == Kind::kLeft);
  EXPECT_EQ(farewell_to("b", Verdict::kRefused), "it is revoked");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  open("b", 8);
  EXPECT_FALSE(server_->receive(0.2).has_value());
  EXPECT_EQ(script_.count(Post::Kind::kBye, "b"), 2U);
  chunk("a", 1, 2, 0, 2);
  expect(Kind::kFrame);
}

TEST_F(MailServerTest, SaysWhyItRefuses) {
  config_.peers = 1;
  start();
  join("a");
  open("a", 8);
  EXPECT_THAT(farewell_to("a", Verdict::kLater), HasSubstr("another process"));
  open("b");
  EXPECT_THAT(farewell_to("b", Verdict::kLater), HasSubstr("as many peers as it may"));
  script_.give("c", Post{.session = kSession, .version = 2});
  EXPECT_EQ(farewell_to("c", Verdict::kRefused), other_version(2, kPostVersion));
}

TEST_F(MailServerTest, DropsAClientThatSendsMoreFramesThanAreReadAhead) {
  start();
  join("a");
  for (std::uint64_t i = 1; i <= kMostFramesUnread; ++i) chunk("a", i, 1, 0, 1);
  for (std::uint64_t i = 1; i <= kMostFramesUnread; ++i) expect(Kind::kFrame);
  EXPECT_EQ(script_.wait_for(Post::Kind::kAck, "a").post.sequence, kMostFramesUnread);
  for (std::uint64_t i = 1; i <= kMostFramesUnread + 1; ++i) chunk("a", kMostFramesUnread + i, 1, 0, 1);
  EXPECT_THAT(farewell_to("a", Verdict::kRefused), HasSubstr("more than the server reads ahead: 16 frames"));
  for (std::uint64_t i = 1; i <= kMostFramesUnread; ++i) expect(Kind::kFrame);
  expect(Kind::kLeft);
}

TEST_F(MailServerTest, DropsAClientThatSendsMoreBytesThanAreReadAhead) {
  config_.chunk = kMostBytesUnread;
  start();
  join("a");
  chunk("a", 1, kMostBytesUnread, 0, kMostBytesUnread);
  chunk("a", 2, 1, 0, 1);
  EXPECT_THAT(farewell_to("a", Verdict::kRefused), HasSubstr("4 MiB before the last one"));
}

TEST_F(MailServerTest, DropsAClientWhoseLetterIsTooLong) {
  start();
  join("a");
  chunk("a", 1, kMostLetter, 0, kMostLetter);
  EXPECT_THAT(farewell_to("a", Verdict::kRefused), HasSubstr("too long"));
}

TEST_F(MailServerTest, LargeFramesTakeTurns) {
  config_.room = 2500;
  start();
  for (const char* name : {"a", "b"}) join(name);
  chunk("a", 1, 2000, 0, 1000);
  chunk("b", 1, 2000, 0, 1000);
  EXPECT_EQ(script_.wait_for(Post::Kind::kGo, "a").post.sequence, 1U);
  EXPECT_EQ(script_.count(Post::Kind::kGo, "b"), 0U);
  chunk("a", 1, 2000, 1000, 1000);
  EXPECT_EQ(script_.count(Post::Kind::kGo, "b"), 0U) << "the frame of a is not read yet";
  expect(Kind::kFrame);
  EXPECT_EQ(script_.count(Post::Kind::kGo, "b"), 1U);
  script_.give("b", {Post::Kind::kBye, kSession});
  expect(Kind::kLeft);
  chunk("a", 2, 5000, 0, 1000);
  EXPECT_EQ(script_.wait_for(Post::Kind::kGo, "a").post.sequence, 2U) << "a single frame always fits";
}

// A frame in two letters takes room however small it is, and gives it back: else a single byte would keep the frame
// that "always fits" waiting for good.
TEST_F(MailServerTest, ATinyFrameInTwoLettersGivesItsRoomBack) {
  config_.room = 2500;
  start();
  for (const char* name : {"a", "b"}) join(name);
  chunk("a", 1, 2, 0, 1);
  EXPECT_EQ(script_.wait_for(Post::Kind::kGo, "a").post.sequence, 1U);
  chunk("a", 1, 2, 1, 1);
  expect(Kind::kFrame);
  chunk("a", 2, 2, 0, 1);
  script_.give("a", {Post::Kind::kBye, kSession});  // in the middle of its second one
  expect(Kind::kLeft);
  chunk("b", 1, 5000, 0, 1000);
  EXPECT_EQ(script_.wait_for(Post::Kind::kGo, "b").post.sequence, 1U);
}

TEST_F(MailServerTest, DropsAClientThatDoesNotWaitForRoom) {
  config_.room = 0;
  start();
  for (const char* name : {"a", "b"}) join(name);
  chunk("a", 1, 2000, 0, 1000);
  chunk("b", 1, 2000, 0, 1000);
  chunk("b", 1, 2000, 0, 1000);  // a letter may come twice
  EXPECT_EQ(script_.count(Post::Kind::kBye, "b"), 0U);
  chunk("b", 1, 2000, 1000, 1000);
  EXPECT_THAT(farewell_to("b", Verdict::kRefused), HasSubstr("before the server had room"));
  expect(Kind::kLeft);
}

TEST_F(MailServerTest, DropsAClientThatPausesWithinAFrameAndNotOneThatWaitsForRoom) {
  config_.room = 0;
  config_.stall = 0.3;
  start();
  for (const char* name : {"a", "b"}) join(name);
  chunk("a", 1, 2000, 0, 1000);
  chunk("b", 1, 2000, 0, 1000);
  EXPECT_EQ(farewell_to("a", Verdict::kOver), "the client paused for 0.3 s within a message");
  EXPECT_EQ(script_.count(Post::Kind::kBye, "b"), 0U);
  EXPECT_EQ(script_.wait_for(Post::Kind::kGo, "b").post.sequence, 1U);
}

TEST_F(MailServerTest, OnlyNewBytesOfAFrameKeepItsClientConnected) {
  config_.room = 0;
  config_.stall = 0.5;
  start();
  for (const char* name : {"repeats", "trickles"}) join(name);
  chunk("repeats", 1, 3000, 0, 1000);
  chunk("trickles", 1, 3000, 0, 1000);
  for (int i = 0; i < 100 && script_.count(Post::Kind::kBye, "repeats") == 0; ++i) {
    chunk("repeats", 1, 3000, 0, 1000);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_EQ(farewell_to("repeats", Verdict::kOver), "the client paused for 0.5 s within a message");
  for (std::uint64_t i = 0; i < 100 && script_.count(Post::Kind::kBye, "trickles") == 0; ++i) {
    chunk("trickles", 1, 3000, 1000 + i, 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_THAT(farewell_to("trickles", Verdict::kOver), HasSubstr("too slowly"));
}

TEST_F(MailServerTest, AClientAboveTheSlowestPaceMayTakeItsTime) {
  config_.stall = 0.4;
  config_.slowest = 100;
  start();
  join("a");
  chunk("a", 1, 3000, 0, 1000);
  for (std::uint64_t at = 1000; at < 3000; at += 100) {  // 1000 bytes/s, five times as long as a stall
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    chunk("a", 1, 3000, at, 100);
  }
  expect(Kind::kFrame);
  EXPECT_EQ(script_.count(Post::Kind::kBye, "a"), 0U);
}

TEST_F(MailServerTest, RepeatsWhatAClientMayHaveMissed) {
  start();
  join("a");
  chunk("a", 1, 2000, 0, 1000);
  EXPECT_EQ(script_.count(Post::Kind::kGo, "a"), 1U);
  script_.give("a", {Post::Kind::kOpen, kSession, 1});
  EXPECT_EQ(script_.count(Post::Kind::kGo, "a"), 2U);
  chunk("a", 1, 2000, 1000, 1000);
  script_.give("a", {Post::Kind::kOpen, kSession, 2});  // of which nothing has come
  EXPECT_THAT(farewell_to("a", Verdict::kOver), HasSubstr("lost"));
}

TEST_F(MailServerTest, AnswersFewLettersOfThoseWhoNeverJoined) {
  start();
  for (std::uint64_t i = 0; i < 1000; ++i) {
    script_.give("a", {Post::Kind::kChunk, i, 1, 1, 0}, "x");
  }
  EXPECT_GE(script_.count(Post::Kind::kBye, "a"), 1U);
  EXPECT_LE(script_.count(Post::Kind::kBye, "a"), 5U);
}

class MailClientTest : public testing::Test {
 protected:
  void start() { client_ = make_mail_client(std::make_unique<ScriptedMailbox>(script_), config_, kSession); }
  void expect_refused(const std::string& why) {
    EXPECT_FALSE(client_->receive(kSoon).has_value());
    EXPECT_FALSE(client_->connected());
    EXPECT_EQ(client_->refusal(), why);
    EXPECT_FALSE(client_->send("anybody?"));
  }

  const QuietConsole quiet_;
  Script script_;
  MailConfig config_{.chunk = 1000};
  std::unique_ptr<ClientTransport> client_;
};

TEST_F(MailClientTest, KnowsWhyItIsRefused) {
  start();
  script_.give("server", encode_bye(kSession, Verdict::kRefused, "it is revoked\x1b"));
  expect_refused("it is revoked\uFFFD");
}

TEST_F(MailClientTest, KnowsThatTheServerIsOfAnotherVersion) {
  start();
  script_.give("server", Post{.kind = Post::Kind::kBye, .session = kSession, .version = 9});
  expect_refused(other_version(kPostVersion, 9));
}

TEST_F(MailClientTest, KeepsKnockingWhereItMayComeLater) {
  start();
  script_.give("server", encode_bye(kSession, Verdict::kLater, "another process"));
  EXPECT_FALSE(client_->receive(1.5).has_value());
  EXPECT_TRUE(client_->connected());
  EXPECT_GE(script_.count(Post::Kind::kOpen, "server"), 2U);
  script_.give("server", {Post::Kind::kOpened, kSession});
  EXPECT_TRUE(client_->send("hello"));
}

TEST_F(MailClientTest, SendsTheRestOfALargeFrameWhenThereIsRoom) {
  start();
  script_.give("server", {Post::Kind::kOpened, kSession});
  std::thread sender([&] { EXPECT_TRUE(client_->send(std::string(2500, 'x'))); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(script_.count(Post::Kind::kChunk, "server"), 1U);
  script_.give("server", {Post::Kind::kGo, kSession, 1});
  sender.join();
  EXPECT_EQ(script_.count(Post::Kind::kChunk, "server"), 3U);
}

}  // namespace
}  // namespace chorus::inline transport_mailbox
