// What every transport does, over every one that is registered. Each test has a server and its peers in this process.
#include "core/ports/transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "tests/any_transport.h"
#include "tests/support.h"

namespace chorus::inline contract {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = TransportEvent::Kind;

constexpr double kPatience = 20;  // seconds for what must happen

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

void pause(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

std::shared_ptr<const FrameBytes> shared_frame(std::string bytes) {
  return std::make_shared<const FrameBytes>(std::move(bytes));
}

/// Random bytes, so that nothing on the way can guess or merge them.
std::string noise(std::size_t size, std::uint64_t seed) {
  std::string bytes(size, '\0');
  std::uint64_t state = seed * 0x9e3779b97f4a7c15ULL + 1;
  for (char& byte : bytes) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    byte = static_cast<char>(state >> 56U);
  }
  return bytes;
}

class TransportContract : public testing::TestWithParam<std::string> {
 protected:
  /// A client that has joined, and its id at the server.
  struct Joined {
    std::unique_ptr<ClientTransport> end;
    PeerId id = 0;
  };
  Joined join() {
    Joined peer{transport_->connect()};
    const auto event = server_->receive(kPatience);
    EXPECT_TRUE(event && event->kind == Kind::kJoined);
    if (event) peer.id = event->peer;
    return peer;
  }
  /// The next frame of a server; anything else is a failure.
  TransportEvent next_frame() {
    auto event = server_->receive(kPatience);
    EXPECT_TRUE(event && event->kind == Kind::kFrame);
    return event ? std::move(*event) : TransportEvent{};
  }
  /// Waits until a condition holds.
  template <typename Condition>
  static bool eventually(Condition condition) {
    for (const auto begin = Clock::now(); seconds_since(begin) < kPatience; pause(0.005)) {
      if (condition()) return true;
    }
    return false;
  }

  void SetUp() override {
    transport_ = any_transport(GetParam());
    if (!transport_) GTEST_SKIP() << "there is no mosquitto";
    server_ = transport_->listen();
  }

  std::unique_ptr<Transport> transport_;
  std::unique_ptr<ServerTransport> server_;
};

TEST_P(TransportContract, FramesArriveInOrderInBothDirections) {
  const Joined peer = join();
  constexpr int kFrames = 300;
  std::thread sender([&] {
    for (int i = 0; i < kFrames; ++i) EXPECT_TRUE(peer.end->send("up " + std::to_string(i)));
  });
  for (int i = 0; i < kFrames; ++i) EXPECT_TRUE(server_->send(peer.id, shared_frame("down " + std::to_string(i))));
  for (int i = 0; i < kFrames; ++i) {
    const TransportEvent event = next_frame();
    EXPECT_EQ(event.peer, peer.id);
    ASSERT_EQ(event.frame, "up " + std::to_string(i));
  }
  for (int i = 0; i < kFrames; ++i) ASSERT_EQ(peer.end->receive(kPatience), "down " + std::to_string(i));
  sender.join();
  EXPECT_FALSE(server_->receive(0.1).has_value());  // nothing twice
  EXPECT_FALSE(peer.end->receive(0.1).has_value());
}

TEST_P(TransportContract, APeerJoinsFirstAndLeavesAfterItsLastFrame) {
  Joined peer = join();
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(peer.end->send(noise(1000, 7)));
  peer.end.reset();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(next_frame().frame, noise(1000, 7));
  const auto event = server_->receive(kPatience);
  ASSERT_TRUE(event && event->kind == Kind::kLeft);
  EXPECT_EQ(event->peer, peer.id);
  EXPECT_FALSE(server_->send(peer.id, shared_frame("too late")));
  EXPECT_FALSE(server_->receive(0.1).has_value());
}

TEST_P(TransportContract, APeerThatNeverJoinedCannotBeSentAnything) {
  EXPECT_FALSE(server_->send(12345, shared_frame("hello?")));
}

TEST_P(TransportContract, AClientThatConnectsAgainIsAnotherPeer) {
  Joined first = join();
  first.end.reset();
  const auto left = server_->receive(kPatience);
  ASSERT_TRUE(left && left->kind == Kind::kLeft);
  const Joined second = join();
  EXPECT_NE(second.id, first.id);
  EXPECT_FALSE(server_->send(first.id, shared_frame("old")));
  EXPECT_TRUE(server_->send(second.id, shared_frame("new")));
  EXPECT_EQ(second.end->receive(kPatience), "new");
}

TEST_P(TransportContract, ManyPeersAreKeptApart) {
  constexpr std::size_t kPeers = 32;
  std::vector<std::unique_ptr<ClientTransport>> ends;
  for (std::size_t i = 0; i < kPeers; ++i) {
    ends.push_back(transport_->connect());
    ASSERT_TRUE(ends.back()->send(std::to_string(i)));
    // Reading as they come: a transport may bound what all peers together have under way.
    std::set<Kind> seen;
    PeerId peer = 0;
    while (seen.size() < 2) {
      const auto event = server_->receive(kPatience);
      ASSERT_TRUE(event.has_value());
      if (event->kind == Kind::kFrame) {
        EXPECT_EQ(event->frame, std::to_string(i));
        EXPECT_TRUE(seen.contains(Kind::kJoined));
        EXPECT_EQ(event->peer, peer);
      }
      peer = event->peer;
      seen.insert(event->kind);
    }
    EXPECT_TRUE(server_->send(peer, shared_frame("for " + std::to_string(i))));
  }
  for (std::size_t i = 0; i < kPeers; ++i) EXPECT_EQ(ends[i]->receive(kPatience), "for " + std::to_string(i));
  // One that leaves takes nobody along.
  ends[3].reset();
  const auto left = server_->receive(kPatience);
  ASSERT_TRUE(left && left->kind == Kind::kLeft);
  EXPECT_TRUE(ends[4]->send("still here"));
  const TransportEvent event = next_frame();
  EXPECT_NE(event.peer, left->peer);
  EXPECT_EQ(event.frame, "still here");
}

TEST_P(TransportContract, FramesOfEverySizeArriveUnchanged) {
  const Joined peer = join();
  const std::size_t chunk = 1U << 18U;
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, chunk - 1, chunk, chunk + 1, 3 * chunk, 20'000'003UL}) {
    const std::string bytes = noise(size, size);
    std::thread sender([&] { EXPECT_TRUE(peer.end->send(bytes)); });
    EXPECT_TRUE(next_frame().frame == bytes) << size;
    sender.join();
    EXPECT_TRUE(server_->send(peer.id, shared_frame(bytes)));
    EXPECT_TRUE(peer.end->receive(kPatience) == bytes) << size;
  }
}

TEST_P(TransportContract, OneBufferGoesToManyPeersAndIsLetGo) {
  std::vector<Joined> peers;
  for (int i = 0; i < 8; ++i) peers.push_back(join());
  const auto frame = shared_frame(noise(1'000'000, 3));
  for (const Joined& peer : peers) EXPECT_TRUE(server_->send(peer.id, frame));
  for (const Joined& peer : peers) EXPECT_TRUE(peer.end->receive(kPatience) == frame->flat());
  EXPECT_TRUE(eventually([&] { return frame.use_count() == 1; })) << frame.use_count();
}

TEST_P(TransportContract, AClientWaitsWhileTheServerReadsNothing) {
  const Joined peer = join();
  constexpr int kFrames = 2000;
  std::atomic<int> sent = 0;
  std::thread sender([&] {
    for (int i = 0; i < kFrames; ++i) {
      if (!peer.end->send(std::to_string(i) + std::string(64 * 1024, 'x'))) return;
      ++sent;
    }
  });
  int before = -1;
  // Sending has come to a stop well before the end.
  EXPECT_TRUE(eventually([&] {
    pause(0.2);
    const int now = sent;
    const bool stopped = now == before;
    before = now;
    return stopped;
  }));
  EXPECT_GT(before, 0);
  EXPECT_LT(before, kFrames / 4);
  for (int i = 0; i < kFrames; ++i) ASSERT_EQ(std::atoi(next_frame().frame.c_str()), i);
  sender.join();
  EXPECT_EQ(sent, kFrames);
}

TEST_P(TransportContract, AClientReadsWhatWasSentBeforeTheServerClosed) {
  const Joined peer = join();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(server_->send(peer.id, shared_frame(noise(300'000, 1))));
  server_.reset();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(peer.end->connected());
    EXPECT_TRUE(peer.end->receive(kPatience) == noise(300'000, 1));
  }
  EXPECT_FALSE(peer.end->receive(kPatience).has_value());
  EXPECT_FALSE(peer.end->connected());
  EXPECT_FALSE(peer.end->send("anybody?"));
}

TEST_P(TransportContract, ClosingTheServerWakesClientsThatWait) {
  const Joined reader = join(), writer = join();
  std::atomic<bool> writing = true;
  std::thread reads([&] { EXPECT_FALSE(reader.end->receive(std::nullopt).has_value()); });
  std::thread writes([&] {
    while (writer.end->send(std::string(64 * 1024, 'x'))) {
    }
    writing = false;
  });
  pause(0.2);
  EXPECT_TRUE(writing);
  server_.reset();
  reads.join();
  writes.join();
  EXPECT_FALSE(reader.end->connected());
}

TEST_P(TransportContract, ReceiveWaitsAsLongAsItIsTold) {
  const Joined peer = join();
  auto begin = Clock::now();
  EXPECT_FALSE(server_->receive(0.0).has_value());
  EXPECT_FALSE(peer.end->receive(0.0).has_value());
  EXPECT_LT(seconds_since(begin), 2);
  begin = Clock::now();
  EXPECT_FALSE(server_->receive(0.2).has_value());
  EXPECT_GE(seconds_since(begin), 0.19);
  begin = Clock::now();
  EXPECT_FALSE(peer.end->receive(0.2).has_value());
  EXPECT_GE(seconds_since(begin), 0.19);
  EXPECT_TRUE(peer.end->connected());
  // What arrives meanwhile ends the wait.
  std::thread later([&] {
    pause(0.1);
    EXPECT_TRUE(peer.end->send("up"));
    EXPECT_TRUE(server_->send(peer.id, shared_frame("down")));
  });
  EXPECT_EQ(peer.end->receive(std::nullopt), "down");
  EXPECT_EQ(server_->receive(std::nullopt)->frame, "up");
  later.join();
}

TEST_P(TransportContract, ManyThreadsMaySendWhileOneReceives) {
  constexpr int kPeers = 4, kThreads = 3, kFrames = 100;
  std::vector<Joined> peers;
  for (int i = 0; i < kPeers; ++i) peers.push_back(join());
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kFrames; ++i) {
        const auto frame = shared_frame(std::to_string(thread * kFrames + i));
        for (const Joined& peer : peers) EXPECT_TRUE(server_->send(peer.id, frame));
      }
    });
  }
  // Each client echoes what it reads.
  for (const Joined& peer : peers) {
    threads.emplace_back([&peer] {
      for (int i = 0; i < kThreads * kFrames; ++i) {
        auto frame = peer.end->receive(kPatience);
        ASSERT_TRUE(frame.has_value());
        ASSERT_TRUE(peer.end->send(std::move(*frame)));
      }
    });
  }
  std::map<std::pair<PeerId, int>, int> next;  // of a peer and a sending thread
  for (int i = 0; i < kPeers * kThreads * kFrames; ++i) {
    const TransportEvent event = next_frame();
    const int value = std::atoi(event.frame.c_str());
    const int thread = value / kFrames;
    int& expected = next[{event.peer, thread}];
    ASSERT_EQ(value, thread * kFrames + expected);
    ++expected;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(next.size(), static_cast<std::size_t>(kPeers * kThreads));
}

TEST_P(TransportContract, PeersMayComeAndGoAtOnce) {
  constexpr int kThreads = 4, kVisits = 15;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < kVisits; ++i) {
        const auto end = transport_->connect();
        EXPECT_TRUE(end->send("visit"));
      }
    });
  }
  std::map<PeerId, std::string> stories;
  for (int i = 0; i < kThreads * kVisits * 3; ++i) {
    const auto event = server_->receive(kPatience);
    ASSERT_TRUE(event.has_value());
    stories[event->peer] += event->kind == Kind::kJoined ? 'j' : event->kind == Kind::kFrame ? 'f' : 'l';
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(stories.size(), static_cast<std::size_t>(kThreads * kVisits));
  for (const auto& [peer, story] : stories) EXPECT_EQ(story, "jfl") << peer;
}

INSTANTIATE_TEST_SUITE_P(Every, TransportContract, testing::ValuesIn(Transports::names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace chorus::inline contract
