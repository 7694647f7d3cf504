// Case 27 of the list of hostile inputs: peers that hold connections instead of using them. The server is another
// process, so that its memory can be measured. CHORUS_IDLE=10000 holds as many connections.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <chrono>
#include <vector>

#include "tests/integration/grpc_network.h"

namespace chorus::inline integration {
namespace {

constexpr double kUnderAttack = 20;  // seconds for an honest client

class GrpcHostileCase27 : public testing::Test {
 protected:
  GrpcHostileCase27() {
    GrpcTransport transport({.address = "127.0.0.1:0"});
    (void)transport.listen();  // finds a free port
    address_ = transport.address();
    // Descriptors of this process and, by inheritance, of the server.
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    most_ = limit.rlim_max > 200 ? static_cast<std::size_t>(limit.rlim_max) - 200 : 0;
    server_ = std::make_unique<TestProcess>("Serve", address_);
    GrpcConfig config{.address = address_};
    config.retry = 0.2;
    honest_ = GrpcTransport(config).connect();
    EXPECT_TRUE(works());
    before_ = server_->peak_mebibytes();
  }
  ~GrpcHostileCase27() override {
    for (const int socket : sockets_) ::close(socket);
  }
  bool works() {
    return honest_->send("are you there?") &&
           honest_->receive(kUnderAttack) == std::optional<std::string>("are you there?");
  }
  double grown() const { return server_->peak_mebibytes() - before_; }
  int open() {
    sockets_.push_back(connect_to(port_of(address_)));
    return sockets_.back();
  }
  void say(int socket, const std::string& bytes) const {
    (void)::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  std::string address_;
  std::size_t most_ = 0;
  std::unique_ptr<TestProcess> server_;
  std::unique_ptr<ClientTransport> honest_;
  double before_ = 0;
  std::vector<int> sockets_;
};

std::string frame(char kind, char flags, std::uint32_t stream, const std::string& payload) {
  std::string bytes;
  const auto size = static_cast<std::uint32_t>(payload.size());
  for (const unsigned shift : {16U, 8U, 0U}) bytes.push_back(static_cast<char>((size >> shift) & 0xffU));
  bytes += {kind, flags};
  for (const unsigned shift : {24U, 16U, 8U, 0U}) bytes.push_back(static_cast<char>((stream >> shift) & 0xffU));
  return bytes + payload;
}

std::string header(const std::string& name, const std::string& value) {
  return std::string(1, '\0') + static_cast<char>(name.size()) + name + static_cast<char>(value.size()) + value;
}

const std::string kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, "");
const std::string kCall = header(":method", "POST") + header(":scheme", "http") +
                          header(":path", "/chorus.stream.Frames/Exchange") + header(":authority", "x") +
                          header("content-type", "application/grpc") + header("te", "trailers");

TEST_F(GrpcHostileCase27, IdleConnectionsLeaveRoomForHonestClients) {
  const char* wanted = std::getenv("CHORUS_IDLE");
  const std::size_t count =
      std::min<std::size_t>(wanted == nullptr ? 1000 : static_cast<std::size_t>(std::atoi(wanted)), most_);
  for (std::size_t i = 0; i < count; ++i) open();
  EXPECT_TRUE(works());
  const double each = grown() * 1024 / static_cast<double>(std::max<std::size_t>(count, 1));
  RecordProperty("kibibytes_per_connection", std::to_string(each));
  EXPECT_LT(each, 100) << "KiB of each of " << count << " connections";
}

TEST_F(GrpcHostileCase27, SlowWritersAreWaitedForNowhere) {
  std::vector<int> slow;
  for (int i = 0; i < 50; ++i) slow.push_back(open());
  const std::string bytes = kPreface + frame(1, 4, 1, kCall);
  for (const char byte : bytes) {
    for (const int socket : slow) say(socket, {byte});
  }
  EXPECT_TRUE(works());
  EXPECT_LT(grown(), 64);
}

TEST_F(GrpcHostileCase27, RapidResetsAreBounded) {
  const int socket = open();
  say(socket, kPreface);
  const std::string cancel("\0\0\0\x08", 4);
  for (std::uint32_t stream = 1; stream < 40'000; stream += 2) {
    say(socket, frame(1, 4, stream, kCall) + frame(3, 0, stream, cancel));
  }
  EXPECT_TRUE(works());
  EXPECT_LT(grown(), 128);
}

TEST_F(GrpcHostileCase27, ResetConnectionsAreForgotten) {
  for (int i = 0; i < 300; ++i) {
    const int socket = open();
    say(socket, kPreface + frame(1, 4, 1, kCall));
    const linger at_once{1, 0};
    ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    ::close(socket);
    sockets_.pop_back();
  }
  EXPECT_TRUE(works());
  EXPECT_LT(grown(), 64);
}

}  // namespace
}  // namespace chorus::inline integration
