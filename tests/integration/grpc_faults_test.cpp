// The gRPC transport when connections break and peers misbehave. A test that needs another process starts this program
// again with one of the disabled tests at the end.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <set>

#include "core/base/error.h"
#include "infrastructure/transport/grpc/byte_buffers.h"
#include "tests/integration/grpc_network.h"
#include "tests/integration/small_disk.h"

namespace chorus::inline integration {
namespace {

using testing::HasSubstr;
using Kind = TransportEvent::Kind;
using Clock = std::chrono::steady_clock;

constexpr double kSoon = 10;          // seconds within which something must happen
constexpr double kServeBuffers = 32;  // MiB, of the server in another process
using Child = TestProcess;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::string filled(std::size_t size, int number) {
  std::string frame = std::to_string(number) + " ";
  frame.resize(std::max(size, frame.size()), static_cast<char>('a' + number % 26));
  return frame;
}

/// A peer that sends exactly what a test wants.
class RawPeer {
 public:
  explicit RawPeer(const std::string& address, const std::string& method = kExchangeMethod)
      : stub_(grpc::CreateChannel(address, grpc::InsecureChannelCredentials())),
        stream_(stub_.PrepareCall(&context_, method, &queue_)) {
    stream_->StartCall(this);
    wait();
  }
  ~RawPeer() {
    context_.TryCancel();
    queue_.Shutdown();
  }
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  bool say(const grpc::ByteBuffer& bytes) {
    stream_->Write(bytes, this);
    return wait();
  }
  bool say_bytes(const std::string& bytes) {
    const grpc::Slice slice(bytes);
    return say(grpc::ByteBuffer(&slice, 1));
  }
  /// Opens a session, and reads the server's answer.
  bool open(std::uint32_t version = kStreamVersion) {
    const Packet packet{.kind = Packet::Kind::kOpen, .version = version, .session = std::string(kSessionBytes, 's')};
    if (!say(to_buffer(packet))) return false;
    grpc::ByteBuffer answer;
    stream_->Read(&answer, this);
    return wait() && from_buffer(answer).ok() && from_buffer(answer).value().packet.kind == Packet::Kind::kOpened;
  }
  /// A chunk with an arbitrary header.
  bool chunk(const ChunkHeader& header, const std::string& data) {
    std::string bytes = encode_packet({.kind = Packet::Kind::kChunk});
    const auto number = [&](char tag, std::uint64_t value) {
      bytes += tag;
      for (; value >= 0x80; value >>= 7U) bytes += static_cast<char>(value | 0x80U);
      bytes += static_cast<char>(value);
    };
    number(6 << 3, header.sequence);
    number(7 << 3, header.size);
    number(8 << 3, header.offset);
    number((15 << 3) | 2, data.size());
    return say_bytes(bytes + data);
  }
  grpc::Status end() {
    grpc::Status status;
    for (grpc::ByteBuffer answer;;) {
      stream_->Read(&answer, this);
      if (!wait()) break;
    }
    stream_->Finish(&status, this);
    wait();
    return status;
  }

 private:
  bool wait() {
    void* tag = nullptr;
    bool ok = false;
    const auto deadline = std::chrono::system_clock::now() + std::chrono::seconds(10);
    return queue_.AsyncNext(&tag, &ok, deadline) == grpc::CompletionQueue::GOT_EVENT && ok;
  }

  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  grpc::GenericStub stub_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
};

class GrpcFaults : public testing::Test {
 protected:
  static GrpcConfig quick(const std::string& address = "127.0.0.1:0") {
    GrpcConfig config;
    config.address = address;
    config.grace = 1;
    config.retry = 0.2;
    return config;
  }
  TransportEvent next() {
    auto event = server_->receive(kSoon);
    EXPECT_TRUE(event.has_value());
    return event ? std::move(*event) : TransportEvent{};
  }
  void expect_echo(ClientTransport& client, const std::string& frame) {
    EXPECT_TRUE(client.send(frame));
    const TransportEvent event = next();
    EXPECT_EQ(event.frame, frame);
    EXPECT_TRUE(server_->send(event.peer, std::make_shared<const FrameBytes>(frame)));
    EXPECT_EQ(client.receive(kSoon), frame);
  }

  GrpcTransport transport_{quick()};
  std::unique_ptr<ServerTransport> server_ = transport_.listen();
  Relay relay_{port_of(transport_.address())};
};

TEST_F(GrpcFaults, CutConnectionsAreResumedWithoutLossOrRepetition) {
  const auto client = GrpcTransport(quick(relay_.address())).connect();
  const PeerId peer = next().peer;
  constexpr int kFrames = 60;
  std::atomic<bool> over = false;
  std::thread cuts([&] {
    while (!over) {
      std::this_thread::sleep_for(std::chrono::milliseconds(60));
      relay_.cut();
    }
  });
  std::thread up([&] {
    for (int i = 0; i < kFrames; ++i) EXPECT_TRUE(client->send(filled(400'000, i)));
  });
  std::thread down([&] {
    for (int i = 0; i < kFrames; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      EXPECT_TRUE(server_->send(peer, std::make_shared<const FrameBytes>(filled(400'000, i))));
    }
  });
  std::thread reads([&] {
    for (int i = 0; i < kFrames; ++i) EXPECT_TRUE(client->receive(60) == filled(400'000, i)) << i;
  });
  for (int i = 0; i < kFrames; ++i) {
    const auto event = server_->receive(60);
    ASSERT_TRUE(event && event->kind == Kind::kFrame) << i;
    EXPECT_EQ(event->peer, peer);  // still the same session
    EXPECT_TRUE(event->frame == filled(400'000, i)) << i;
  }
  reads.join();
  over = true;
  for (std::thread* thread : {&cuts, &up, &down}) thread->join();
  EXPECT_GT(relay_.connections(), 2);
  EXPECT_FALSE(server_->receive(0.3).has_value());
  EXPECT_FALSE(client->receive(0.1).has_value());
}

TEST_F(GrpcFaults, APeerThatStaysAwayLeavesAfterTheGrace) {
  auto relay = std::make_unique<Relay>(port_of(transport_.address()));
  const auto client = GrpcTransport(quick(relay->address())).connect();
  const PeerId peer = next().peer;
  relay.reset();
  const auto begin = Clock::now();
  const TransportEvent left = next();
  EXPECT_EQ(left.kind, Kind::kLeft);
  EXPECT_EQ(left.peer, peer);
  EXPECT_GE(since(begin), 0.8);
  EXPECT_FALSE(server_->send(peer, std::make_shared<const FrameBytes>("too late")));
}

TEST_F(GrpcFaults, AClientThatStaysAwayTooLongIsGone) {
  const auto client = GrpcTransport(quick(relay_.address())).connect();
  EXPECT_EQ(next().kind, Kind::kJoined);
  expect_echo(*client, "both know the session");
  relay_.block(true);
  relay_.cut();
  EXPECT_EQ(next().kind, Kind::kLeft);
  EXPECT_TRUE(client->connected());  // it has not noticed yet
  relay_.block(false);
  EXPECT_FALSE(client->receive(kSoon).has_value());
  EXPECT_FALSE(client->connected());
}

TEST_F(GrpcFaults, AKilledClientLeavesAndAnotherProcessMayJoin) {
  Child first("Echo", transport_.address());
  const PeerId peer = next().peer;
  ASSERT_TRUE(server_->send(peer, std::make_shared<const FrameBytes>(filled(3'000'000, 1))));
  EXPECT_TRUE(next().frame == filled(3'000'000, 1));
  first.kill();
  EXPECT_EQ(next().kind, Kind::kLeft);
  Child second("Echo", transport_.address());
  const TransportEvent joined = next();
  EXPECT_EQ(joined.kind, Kind::kJoined);
  EXPECT_NE(joined.peer, peer);
}

TEST_F(GrpcFaults, AKilledServerThatComesBackHasAnotherEpoch) {
  const std::string address = transport_.address();
  server_.reset();
  std::optional<Child> server;
  server.emplace("Serve", address);
  auto client = GrpcTransport(quick(address)).connect();
  ASSERT_TRUE(client->send("one"));
  EXPECT_EQ(client->receive(kSoon), "one");
  server->kill();
  EXPECT_FALSE(client->receive(0.5).has_value());
  EXPECT_TRUE(client->connected());  // it might be the network
  server.emplace("Serve", address);
  EXPECT_FALSE(client->receive(kSoon).has_value());
  EXPECT_FALSE(client->connected());  // the state of the old process is lost
  client = GrpcTransport(quick(address)).connect();
  ASSERT_TRUE(client->send("two"));
  EXPECT_EQ(client->receive(kSoon), "two");
}

TEST_F(GrpcFaults, AClientWaitsForItsServerUpToItsPatience) {
  const std::string address = transport_.address();
  server_.reset();
  GrpcConfig config = quick(address);
  const auto patient = GrpcTransport(config).connect();
  config.patience = 0.5;
  const auto hasty = GrpcTransport(config).connect();
  EXPECT_FALSE(hasty->receive(kSoon).has_value());
  EXPECT_FALSE(hasty->connected());
  EXPECT_FALSE(hasty->send("anybody?"));
  server_ = GrpcTransport(config).listen();
  EXPECT_EQ(next().kind, Kind::kJoined);
  expect_echo(*patient, "at last");
}

TEST_F(GrpcFaults, GarbageDoesNotJoin) {
  const auto honest = transport_.connect();
  EXPECT_EQ(next().kind, Kind::kJoined);
  for (const std::string& bytes :
       {std::string("these are no packets"), std::string(100'000, '\xff'), std::string(1000, '\0'),
        std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\x04", 28), std::string("GET / HTTP/1.1\r\n\r\n")}) {
    const int socket = connect_to(port_of(transport_.address()));
    EXPECT_GT(::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL), 0);
    expect_echo(*honest, "still here");
    ::close(socket);
  }
  EXPECT_FALSE(server_->receive(0.1).has_value());
}

TEST_F(GrpcFaults, InvalidPacketsAreRefused) {
  const auto honest = transport_.connect();
  EXPECT_EQ(next().kind, Kind::kJoined);
  const auto refused = [&](auto act) {
    RawPeer peer(transport_.address());
    act(peer);
    return peer.end().error_message();
  };
  EXPECT_THAT(refused([](RawPeer& peer) { peer.say_bytes("these are no packets"); }), HasSubstr("cannot be read"));
  EXPECT_THAT(refused([](RawPeer& peer) { peer.chunk({1, 1, 0}, "x"); }), HasSubstr("begin with a session"));
  EXPECT_THAT(refused([](RawPeer& peer) { peer.open(99); }), HasSubstr("same version of Chorus"));
  EXPECT_THAT(refused([](RawPeer& peer) { peer.open(2); }), HasSubstr("speaks version 2 of the stream protocol and"))
      << "its messages of secure sums are others";
  EXPECT_FALSE(server_->receive(0.1).has_value());  // none of these has joined
  const auto left = [&](auto act) {
    const std::string why = refused([&](RawPeer& peer) {
      EXPECT_TRUE(peer.open());
      act(peer);
    });
    EXPECT_EQ(next().kind, Kind::kJoined);
    EXPECT_EQ(next().kind, Kind::kLeft);
    return why;
  };
  EXPECT_THAT(left([](RawPeer& peer) { peer.chunk({1, 1ULL << 40U, 0}, "x"); }), HasSubstr("over the limit"));
  EXPECT_THAT(left([](RawPeer& peer) { peer.chunk({1, ~0ULL, 0}, "x"); }), HasSubstr("over the limit"));
  EXPECT_THAT(left([](RawPeer& peer) { peer.chunk({2, 1, 0}, "x"); }), HasSubstr("came after"));
  EXPECT_THAT(left([](RawPeer& peer) { peer.chunk({1, 4, 0}, "too long"); }), HasSubstr("does not fit"));
  EXPECT_THAT(left([](RawPeer& peer) { peer.say(to_buffer(Packet{.kind = Packet::Kind::kAck, .received = 7})); }),
              HasSubstr("never sent"));
  EXPECT_THAT(left([](RawPeer& peer) { peer.say(to_buffer(Packet{.kind = Packet::Kind::kOpened})); }),
              HasSubstr("only a server"));
  expect_echo(*honest, "still here");
  EXPECT_EQ(RawPeer(transport_.address(), "/another.Service/Call").end().error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(GrpcFaults, ALargePacketIsRefusedBeforeItFillsMemory) {
  const std::string address = transport_.address();
  server_.reset();
  const Child server("Serve", address);
  const auto client = GrpcTransport(quick(address)).connect();
  ASSERT_TRUE(client->send("are you there?"));
  EXPECT_EQ(client->receive(kSoon), "are you there?");
  const double before = server.peak_mebibytes();
  RawPeer peer(address);
  EXPECT_TRUE(peer.open());
  peer.chunk({1, 256U << 20U, 0}, std::string(256U << 20U, 'x'));
  EXPECT_FALSE(peer.end().ok());
  EXPECT_LT(server.peak_mebibytes() - before, 192);  // the packet has 256
  ASSERT_TRUE(client->send("still there?"));
  EXPECT_EQ(client->receive(kSoon), "still there?");
}

TEST_F(GrpcFaults, APeerThatPausesWithinAFrameDoesNotBlockOthers) {
  GrpcConfig config = quick();
  config.stall = 1;
  config.inbox = 1;  // one large frame at a time
  GrpcTransport narrow(config);
  const auto server = narrow.listen();
  RawPeer slow(narrow.address());
  ASSERT_TRUE(slow.open());
  ASSERT_TRUE(slow.chunk({1, 3'000'000, 0}, "the first bytes, and no more"));
  EXPECT_EQ(server->receive(kSoon)->kind, Kind::kJoined);
  const auto honest = narrow.connect();
  EXPECT_EQ(server->receive(kSoon)->kind, Kind::kJoined);
  EXPECT_TRUE(honest->send(filled(3'000'000, 5)));
  EXPECT_TRUE(honest->send("small"));
  const auto begin = Clock::now();
  std::set<Kind> seen;
  for (;;) {
    const auto event = server->receive(kSoon);
    ASSERT_TRUE(event.has_value());
    seen.insert(event->kind);
    if (event->kind != Kind::kFrame) continue;
    EXPECT_TRUE(event->frame == filled(3'000'000, 5));
    break;
  }
  EXPECT_GE(since(begin), 0.8);  // it waited for the slow peer, which was dropped
  EXPECT_EQ(slow.end().error_message(), "the client paused for 1 s within a message");
  EXPECT_EQ(server->receive(kSoon)->frame, "small");
}

// Its packets arrive in time: acknowledgements, old chunks, single bytes. Its frame does not.
TEST_F(GrpcFaults, OnlyNewBytesOfAFrameKeepItsPeerConnected) {
  GrpcConfig config = quick();
  config.stall = 0.5;
  GrpcTransport transport(config);
  const auto server = transport.listen();
  const auto told = [&](auto act) {
    RawPeer peer(transport.address());
    EXPECT_TRUE(peer.open() && peer.chunk({1, 1, 0}, "x") && peer.chunk({2, 3'000'000, 0}, "x"));
    const auto begin = Clock::now();
    for (std::uint64_t i = 1; since(begin) < kSoon && act(peer, i); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    EXPECT_GE(since(begin), 0.4);
    return peer.end().error_message();
  };
  EXPECT_EQ(told([](RawPeer& peer, std::uint64_t) { return peer.say(to_buffer(Packet{.kind = Packet::Kind::kAck})); }),
            "the client paused for 0.5 s within a message");
  EXPECT_EQ(told([](RawPeer& peer, std::uint64_t) {
              return peer.chunk({1, 1, 0}, "x");
            }),
            "the client paused for 0.5 s within a message");
  EXPECT_THAT(told([](RawPeer& peer, std::uint64_t i) {
                return peer.chunk({2, 3'000'000, i}, "x");
              }),
              HasSubstr("too slowly: 0.0 KiB/s on average, and the server needs at least 16 KiB/s"));
}

TEST_F(GrpcFaults, LargeFramesTakeTurns) {
  GrpcConfig config = quick();
  config.inbox = 1;
  GrpcTransport narrow(config);
  const auto server = narrow.listen();
  std::vector<std::unique_ptr<ClientTransport>> clients;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(narrow.connect());
    EXPECT_EQ(server->receive(kSoon)->kind, Kind::kJoined);
  }
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(clients[static_cast<std::size_t>(i)]->send(filled(2'000'000, i)));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  std::set<std::string> frames;
  for (int i = 0; i < 6; ++i) {
    const auto event = server->receive(kSoon);
    ASSERT_TRUE(event && event->kind == Kind::kFrame);
    frames.insert(event->frame);
  }
  EXPECT_EQ(frames.size(), 6U);
}

TEST_F(GrpcFaults, Case29AFullFolderForLargeFramesDelaysThemAndLosesNothing) {
  const TemporaryFolder folder;
  SmallDisk disk(folder / "spool", 96);
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small disk needs root";
  GrpcConfig config = quick();
  config.spool_in = disk.folder().string();
  GrpcTransport transport(config);
  const auto server = transport.listen();
  const auto client = GrpcTransport(quick(transport.address())).connect();
  ASSERT_EQ(server->receive(kSoon)->kind, Kind::kJoined);
  disk.fill();
  const std::string frame = filled(kLargestInMemory + 1, 3);
  ASSERT_TRUE(client->send(frame));
  EXPECT_FALSE(server->receive(1.0).has_value()) << "there is no room for it, and its sender is not dropped";
  disk.make_room();
  const auto event = server->receive(3 * kSoon);
  ASSERT_TRUE(event && event->kind == Kind::kFrame);
  EXPECT_TRUE(event->file && event->bytes() == frame);
}

TEST_F(GrpcFaults, APeerThatDoesNotReadIsDropped) {
  GrpcConfig config = quick();
  config.backlog = 20;
  GrpcTransport narrow(config);
  const auto server = narrow.listen();
  RawPeer deaf(narrow.address());
  ASSERT_TRUE(deaf.open());
  const PeerId peer = server->receive(kSoon)->peer;
  int taken = 0;
  while (taken < 100 && server->send(peer, std::make_shared<const FrameBytes>(std::string(1U << 20U, 'x')))) ++taken;
  EXPECT_EQ(taken, 20);
  EXPECT_EQ(server->receive(kSoon)->kind, Kind::kLeft);
}

TEST_F(GrpcFaults, FramesOverTheLimitAreRefusedByBothEnds) {
  GrpcConfig config = quick();
  config.frame_limit = 1;
  GrpcTransport narrow(config);
  const auto server = narrow.listen();
  const auto client = narrow.connect();
  const PeerId peer = server->receive(kSoon)->peer;
  const std::string large(2U << 20U, 'x');
  EXPECT_THAT(message_of<WorldError>([&] { (void)client->send(large); }),
              HasSubstr("a message of 2.0 MiB is over the limit of 1.0 MiB; raise serving.frame_limit at the server"));
  EXPECT_THAT(message_of<WorldError>([&] { (void)server->send(peer, std::make_shared<const FrameBytes>(large)); }),
              HasSubstr("a message of 2.0 MiB is over the limit of 1.0 MiB; raise serving.frame_limit at the server"));
  config.address = narrow.address();
  config.frame_limit = 10;  // a peer that ignores the limit
  const auto careless = GrpcTransport(config).connect();
  EXPECT_EQ(server->receive(kSoon)->kind, Kind::kJoined);
  EXPECT_TRUE(careless->send(large));
  EXPECT_FALSE(careless->receive(kSoon).has_value());
  EXPECT_FALSE(careless->connected());
  EXPECT_THAT(careless->refusal(), HasSubstr("raise serving.frame_limit at the server"));
  EXPECT_EQ(server->receive(kSoon)->kind, Kind::kLeft);
}

// The other processes, which run until killed.
std::string given(const std::string& what) {
  const char* value = std::getenv(("CHORUS_TEST_" + what).c_str());
  return value == nullptr ? "" : value;
}
std::string given_address() { return given("ADDRESS"); }

TEST(GrpcChild, DISABLED_Echo) {
  if (given_address().empty()) GTEST_SKIP();
  GrpcConfig config;
  config.address = given_address();
  const auto client = GrpcTransport(config).connect();
  while (auto frame = client->receive(std::nullopt)) client->send(std::move(*frame));
}

TEST(GrpcChild, DISABLED_Serve) {
  if (given_address().empty()) GTEST_SKIP();
  GrpcConfig config;
  config.address = given_address();
  config.tls = {given("CERTIFICATE"), given("KEY"), given("AUTHORITY")};
  config.buffers = kServeBuffers;
  const auto server = GrpcTransport(config).listen();
  while (const auto event = server->receive(std::nullopt)) {
    if (event->kind == Kind::kFrame) server->send(event->peer, std::make_shared<const FrameBytes>(event->frame));
  }
}

}  // namespace
}  // namespace chorus::inline integration
