// Case 27 of the list of hostile inputs: peers that hold connections instead of using them. The server is another
// process, so that its memory can be measured, and uses TLS, as every server does that others can reach. Who has no
// certificate gets as far as the handshake, who has one as far as HTTP/2. CHORUS_IDLE=10000 holds as many connections.
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <chrono>
#include <vector>

#include "tests/integration/grpc_network.h"

namespace chorus::inline integration {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kUnderAttack = 20;     // seconds for an honest client
constexpr double kHandshakeLimit = 10;  // seconds that the server gives a handshake, and a stream to open a session
constexpr double kAllowance = 10;       // seconds more on a busy machine

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// An HTTP/2 connection of somebody who has a certificate, byte by byte.
class TlsPeer {
 public:
  TlsPeer(int port, const TlsFiles& files)
      : context_(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free), socket_(connect_to(port)) {
    SSL_CTX_use_certificate_file(context_.get(), files.certificate.c_str(), SSL_FILETYPE_PEM);
    SSL_CTX_use_PrivateKey_file(context_.get(), files.key.c_str(), SSL_FILETYPE_PEM);
    ssl_.reset(SSL_new(context_.get()));
    const unsigned char protocols[] = {2, 'h', '2'};
    SSL_set_alpn_protos(ssl_.get(), protocols, sizeof protocols);
    const timeval patience{5, 0};
    for (const int what : {SO_RCVTIMEO, SO_SNDTIMEO}) {
      ::setsockopt(socket_, SOL_SOCKET, what, &patience, sizeof patience);
    }
    SSL_set_fd(ssl_.get(), socket_);
    connected_ = SSL_connect(ssl_.get()) == 1;
  }
  ~TlsPeer() { ::close(socket_); }
  TlsPeer(const TlsPeer&) = delete;
  TlsPeer& operator=(const TlsPeer&) = delete;

  bool connected() const { return connected_; }
  bool say(const std::string& bytes) { return SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())) > 0; }
  /// Reads until the server says this; false: it never does.
  bool hears(const std::string& text) {
    std::string heard;
    char bytes[4096];
    for (const auto begin = Clock::now(); seconds_since(begin) < kHandshakeLimit + kAllowance;) {
      const int got = SSL_read(ssl_.get(), bytes, sizeof bytes);
      if (got > 0) heard.append(bytes, static_cast<std::size_t>(got));
      if (heard.find(text) != std::string::npos) return true;
      if (got <= 0 && SSL_get_error(ssl_.get(), got) != SSL_ERROR_WANT_READ) return false;
    }
    return false;
  }
  /// Ends the connection without a word.
  void reset() {
    const linger at_once{1, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }

 private:
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{nullptr, &SSL_free};
  int socket_;
  bool connected_ = false;
};

class GrpcHostileCase27 : public testing::Test {
 protected:
  GrpcHostileCase27() {
    std::signal(SIGPIPE, SIG_IGN);  // the server may close while a peer writes
    GrpcTransport transport({.address = "127.0.0.1:0"});
    (void)transport.listen();  // finds a free port
    address_ = transport.address();
    // Descriptors of this process and, by inheritance, of the server.
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    most_ = limit.rlim_max > 200 ? static_cast<std::size_t>(limit.rlim_max) - 200 : 0;
    server_ = std::make_unique<TestProcess>("Serve", address_, fleet_.issue("chorus-server", true));
    GrpcConfig config{.address = address_};
    config.tls = fleet_.issue("honest");
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
  std::unique_ptr<TlsPeer> enrolled() const { return std::make_unique<TlsPeer>(port_of(address_), hostile_); }

  const Authority fleet_;
  const TlsFiles hostile_ = fleet_.issue("hostile");
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
const std::string kCall = header(":method", "POST") + header(":scheme", "https") +
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

// One byte of a handshake at a time, like Slowloris: the server cuts each of them, however busy they look.
TEST_F(GrpcHostileCase27, SlowHandshakesAreCut) {
  std::vector<int> slow;
  for (int i = 0; i < 50; ++i) slow.push_back(open());
  const std::string hello("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);  // of 512 bytes
  std::size_t cut = 0;
  const auto begin = Clock::now();
  for (std::size_t at = 0; !slow.empty() && seconds_since(begin) < kHandshakeLimit + kAllowance; ++at) {
    const char byte = at < hello.size() ? hello[at] : 'x';
    std::erase_if(slow, [&](int socket) {
      char answer[64];
      (void)::send(socket, &byte, 1, MSG_NOSIGNAL);
      const ssize_t got = ::recv(socket, answer, sizeof answer, MSG_DONTWAIT);
      const bool over = got == 0 || (got < 0 && errno != EAGAIN);
      cut += over ? 1 : 0;
      return over;
    });
    if (at == 10) {
      EXPECT_TRUE(works());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  EXPECT_EQ(cut, 50U) << "connections that the server has cut";
  EXPECT_GE(seconds_since(begin), kHandshakeLimit / 2) << "an honest client may be slow, too";
  EXPECT_TRUE(works());
  EXPECT_LT(grown(), 64);
}

TEST_F(GrpcHostileCase27, SlowWritersOfACallAreToldToGo) {
  std::vector<std::unique_ptr<TlsPeer>> slow;
  for (int i = 0; i < 20; ++i) {
    slow.push_back(enrolled());
    ASSERT_TRUE(slow.back()->connected());
  }
  for (const char byte : kPreface + frame(1, 4, 1, kCall)) {
    for (const auto& peer : slow) EXPECT_TRUE(peer->say({byte}));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(works());
  for (const auto& peer : slow) EXPECT_TRUE(peer->hears("it did not open a session"));
  EXPECT_TRUE(works());
  EXPECT_LT(grown(), 64);
}

TEST_F(GrpcHostileCase27, RapidResetsAreBounded) {
  const auto peer = enrolled();
  ASSERT_TRUE(peer->connected());
  peer->say(kPreface);
  const std::string cancel("\0\0\0\x08", 4);
  for (std::uint32_t stream = 1; stream < 40'000; stream += 2) {
    if (!peer->say(frame(1, 4, stream, kCall) + frame(3, 0, stream, cancel))) break;  // the server has had enough
  }
  EXPECT_TRUE(works());
  EXPECT_LT(grown(), 128);
}

TEST_F(GrpcHostileCase27, ResetConnectionsAreForgotten) {
  for (int i = 0; i < 300; ++i) {
    const auto peer = enrolled();
    ASSERT_TRUE(peer->connected());
    peer->say(kPreface + frame(1, 4, 1, kCall));
    peer->reset();
  }
  EXPECT_TRUE(works());
  EXPECT_LT(grown(), 64);
}

}  // namespace
}  // namespace chorus::inline integration
