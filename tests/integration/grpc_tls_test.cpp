// Authentication over the gRPC transport: case 26 of the list of faults, and the certificates of case 28.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "core/base/error.h"
#include "infrastructure/certificates/certificate.h"
#include "tests/integration/grpc_network.h"

namespace chorus::inline integration {
namespace {

using testing::HasSubstr;
using Kind = TransportEvent::Kind;

constexpr double kPatience = 10;

/// What a foreign client gets from a port: whether the server speaks HTTP/2 with it, and its certificate.
struct Handshake {
  bool accepted = false;
  std::string server_serial = {};
};

Handshake handshake(int port, const TlsFiles& files, int newest = TLS1_3_VERSION) {
  Handshake result;
  std::signal(SIGPIPE, SIG_IGN);  // the server may close while we write
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
  SSL_CTX_set_max_proto_version(context.get(), newest);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_VERSION);
  SSL_CTX_set_cipher_list(context.get(), "ALL:@SECLEVEL=0");  // what old versions need
  if (!files.certificate.empty()) {
    SSL_CTX_use_certificate_file(context.get(), files.certificate.c_str(), SSL_FILETYPE_PEM);
    SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM);
  }
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), &SSL_free);
  const unsigned char protocols[] = {2, 'h', '2'};
  SSL_set_alpn_protos(ssl.get(), protocols, sizeof protocols);
  const int socket = connect_to(port);
  const timeval patience{5, 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  SSL_set_fd(ssl.get(), socket);
  if (SSL_connect(ssl.get()) == 1) {
    const std::string hello = std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") + std::string("\0\0\0\4\0\0\0\0\0", 9);
    SSL_write(ssl.get(), hello.data(), static_cast<int>(hello.size()));
    char answer[9];
    result.accepted = SSL_read(ssl.get(), answer, sizeof answer) == 9 && answer[3] == 4;  // the server's SETTINGS
    X509* theirs = SSL_get1_peer_certificate(ssl.get());
    const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()), &BIO_free);
    PEM_write_bio_X509(bio.get(), theirs);
    X509_free(theirs);
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio.get(), &data);
    result.server_serial = certificate_facts({data, static_cast<std::size_t>(size)}).serial;
  }
  ::close(socket);
  return result;
}

class GrpcTlsCase26 : public testing::Test {
 protected:
  GrpcConfig server_config() {
    GrpcConfig config;
    config.tls = fleet_.issue("chorus-server", true);
    config.revoked = (fleet_ / "revoked").string();
    return config;
  }
  GrpcConfig client_config(const TlsFiles& files) const {
    GrpcConfig config;
    config.address = transport_.address();
    config.tls = files;
    config.retry = 0.2;
    return config;
  }
  std::unique_ptr<ClientTransport> connect(const TlsFiles& files, double patience = 0) const {
    GrpcConfig config = client_config(files);
    config.patience = patience;
    return GrpcTransport(config).connect();
  }
  /// No peer joins, and the client gives up.
  void expect_refused(const TlsFiles& files) {
    const auto client = connect(files, 0.5);
    EXPECT_FALSE(client->receive(kPatience).has_value());
    EXPECT_FALSE(client->connected());
    EXPECT_FALSE(server_->receive(0.0).has_value());
  }
  TransportEvent next() {
    auto event = server_->receive(kPatience);
    EXPECT_TRUE(event.has_value());
    return event ? *event : TransportEvent{};
  }
  int port() const { return port_of(transport_.address()); }

  Authority fleet_;
  GrpcTransport transport_{server_config()};
  std::unique_ptr<ServerTransport> server_ = transport_.listen();
};

TEST_F(GrpcTlsCase26, TheServerKnowsTheNameInTheCertificate) {
  const auto a = connect(fleet_.issue("clinic-a"));
  const TransportEvent joined = next();
  EXPECT_EQ(joined.kind, Kind::kJoined);
  EXPECT_EQ(joined.identity, "clinic-a");
  ASSERT_TRUE(a->send("hello"));
  EXPECT_EQ(next().frame, "hello");
  ASSERT_TRUE(server_->send(joined.peer, std::make_shared<const FrameBytes>(std::string(1'000'000, 'x'))));
  EXPECT_EQ(a->receive(kPatience), std::string(1'000'000, 'x'));
}

TEST_F(GrpcTlsCase26, OnlyValidCertificatesOfTheFleetAreAccepted) {
  const Authority other;  // with the same name
  EXPECT_TRUE(handshake(port(), fleet_.issue("a")).accepted);
  EXPECT_FALSE(handshake(port(), {}).accepted) << "no certificate";
  EXPECT_FALSE(handshake(port(), fleet_.issue("expired", false, -7200, -3600)).accepted);
  EXPECT_FALSE(handshake(port(), fleet_.issue("early", false, 3600, 7200)).accepted);
  EXPECT_FALSE(handshake(port(), other.issue("a")).accepted) << "another fleet's";
  EXPECT_FALSE(handshake(port(), fleet_.issue("server", true)).accepted) << "a server's, not a client's";
  for (const int version : {TLS1_VERSION, TLS1_1_VERSION, TLS1_2_VERSION}) {
    EXPECT_FALSE(handshake(port(), fleet_.issue("a"), version).accepted) << "TLS 1.2 or older: " << version;
  }
  EXPECT_FALSE(server_->receive(0.0).has_value());  // a handshake alone does not make a peer
}

TEST_F(GrpcTlsCase26, AForeignClientNeverJoins) { expect_refused(Authority().issue("clinic-a")); }

TEST_F(GrpcTlsCase26, APlaintextClientNeverJoins) { expect_refused({}); }

TEST(GrpcTlsClientCase26, TalksToTheServerOfItsFleetOnly) {
  const Authority fleet, other;
  for (const TlsFiles& files :
       {other.issue("chorus-server", true), fleet.issue("chorus-server", false), fleet.issue("another-server", true)}) {
    GrpcConfig config;
    config.tls = files;
    GrpcTransport transport(config);
    const auto server = transport.listen();
    config.address = transport.address();
    config.tls = fleet.issue("clinic-a");
    config.retry = 0.2;
    config.patience = 0.5;
    const auto client = GrpcTransport(config).connect();
    EXPECT_FALSE(client->receive(kPatience).has_value());
    EXPECT_FALSE(client->connected());
    EXPECT_FALSE(server->receive(0.0).has_value());
  }
}

using GrpcTlsCase28 = GrpcTlsCase26;

TEST_F(GrpcTlsCase28, AWrongClockIsNamed) {
  const auto mistake = [&](const TlsFiles& files) { return message_of<DataError>([&] { (void)connect(files); }); };
  EXPECT_THAT(mistake(fleet_.issue("late", false, -2 * 86'400, -86'400)), HasSubstr("expired on"));
  EXPECT_THAT(mistake(fleet_.issue("early", false, 86'400, 2 * 86'400)), HasSubstr("set the clock"));
  EXPECT_THAT(mistake({"no.crt", "no.key", "no.pem"}), HasSubstr("no.crt"));
}

TEST(GrpcAddress, PlaintextIsForLoopbackOnly) {
  for (const char* address : {"0.0.0.0:70", "10.0.0.1:70", "127.example.com:70", "[::]:70", "example.com:70"}) {
    GrpcConfig config;
    config.address = address;
    EXPECT_THAT(message_of<ConfigError>([&] { GrpcTransport transport(config); }), HasSubstr("loopback only"))
        << address;
  }
  GrpcConfig config;
  config.address = "somewhere";
  EXPECT_THAT(message_of<ConfigError>([&] { GrpcTransport transport(config); }), HasSubstr("host:port"));
}

TEST(GrpcAddress, APortInUseIsNamed) {
  GrpcTransport first{GrpcConfig()};
  const auto server = first.listen();
  GrpcConfig config;
  config.address = first.address();
  EXPECT_THAT(message_of<WorldError>([&] { (void)GrpcTransport(config).listen(); }), HasSubstr(first.address()));
}

TEST_F(GrpcTlsCase28, OneProcessAtATimeUsesACertificate) {
  const TlsFiles files = fleet_.issue("clinic-a");
  auto first = connect(files);
  const PeerId id = next().peer;
  const auto second = connect(files);
  EXPECT_FALSE(server_->receive(1.0).has_value());
  EXPECT_TRUE(first->send("still here"));
  EXPECT_EQ(next().peer, id);
  first.reset();
  EXPECT_EQ(next().kind, Kind::kLeft);
  const TransportEvent joined = next();  // it keeps trying
  EXPECT_EQ(joined.kind, Kind::kJoined);
  EXPECT_NE(joined.peer, id);
}

TEST_F(GrpcTlsCase26, ARevokedCertificateIsDroppedAndStaysOut) {
  const TlsFiles bad = fleet_.issue("clinic-b");
  const auto good = connect(fleet_.issue("clinic-a"));
  EXPECT_EQ(next().kind, Kind::kJoined);
  const auto client = connect(bad);
  const PeerId id = next().peer;
  std::ifstream file(bad.certificate);
  const std::string pem((std::istreambuf_iterator<char>(file)), {});
  std::ofstream(fleet_ / "revoked") << "0123\n" << certificate_facts(pem).serial << "\n";
  const TransportEvent left = next();
  EXPECT_EQ(left.kind, Kind::kLeft);
  EXPECT_EQ(left.peer, id);
  EXPECT_FALSE(client->receive(kPatience).has_value());
  EXPECT_FALSE(client->connected());
  const auto again = connect(bad);
  EXPECT_FALSE(again->receive(kPatience).has_value());
  EXPECT_FALSE(again->connected());
  EXPECT_TRUE(good->send("hello"));
  EXPECT_EQ(next().frame, "hello");
}

TEST_F(GrpcTlsCase26, AConnectedClientWhoseCertificateExpiresIsDropped) {
  const auto good = connect(fleet_.issue("clinic-a"));
  EXPECT_EQ(next().kind, Kind::kJoined);
  const auto client = connect(fleet_.issue("clinic-b", false, -60, 3));
  const PeerId id = next().peer;
  const TransportEvent left = next();
  EXPECT_EQ(left.kind, Kind::kLeft);
  EXPECT_EQ(left.peer, id);
  EXPECT_FALSE(client->receive(kPatience).has_value());
  EXPECT_THAT(client->refusal(), HasSubstr("expired on"));
  EXPECT_TRUE(good->send("hello"));
  EXPECT_EQ(next().frame, "hello");
}

TEST_F(GrpcTlsCase26, AClientThatCannotReachItsServerEndsWithItsCertificate) {
  server_.reset();
  const auto client = connect(fleet_.issue("clinic-a", false, -60, 2));
  EXPECT_FALSE(client->receive(kPatience).has_value());
  EXPECT_FALSE(client->connected());
  EXPECT_THAT(client->refusal(), HasSubstr("clinic-a.crt expired on"));
}

TEST_F(GrpcTlsCase26, TheServerLoadsANewCertificateWhileRunning) {
  const auto client = connect(fleet_.issue("clinic-a"));
  const TransportEvent joined = next();
  const std::string before = handshake(port(), fleet_.issue("x")).server_serial;
  (void)fleet_.issue("chorus-server", true);  // over the old files
  std::string after = before;
  for (int i = 0; i < 100 && after == before; ++i) {
    ::usleep(100'000);
    after = handshake(port(), fleet_.issue("x")).server_serial;
  }
  EXPECT_NE(after, before);
  EXPECT_TRUE(client->send("the old connection goes on"));
  EXPECT_EQ(next().peer, joined.peer);
  const auto late = connect(fleet_.issue("clinic-b"));
  EXPECT_EQ(next().identity, "clinic-b");
}

}  // namespace
}  // namespace chorus::inline integration
