#include "infrastructure/control/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/error.h"
#include "tests/support.h"

namespace chorus::inline control {
namespace {

using testing::HasSubstr;

HttpResponse echo(const HttpRequest& request) {
  if (request.path == "/throw") throw DataError("no");
  if (request.path != "/status") return {404, "there is no such page\n"};
  return {200, request.method + " " + request.path};
}

TEST(HttpServer, AnswersOnASocketOfTheFileSystem) {
  const TemporaryFolder folder;
  // Longer than a socket's name may be.
  const auto path = folder / std::string(120, 'x') / "server.sock";
  std::filesystem::create_directories(path.parent_path());
  {
    const HttpServer server("unix:" + path.string(), echo);
    EXPECT_EQ(http_ask(path, {"GET", "/status"}).value().body, "GET /status");
    EXPECT_EQ(http_ask(path, {"POST", "/nothing"}).value().status, 404);
    EXPECT_EQ(http_ask(path, {"GET", "/throw"}).value().status, 500);
    EXPECT_EQ(std::filesystem::status(path).permissions() & std::filesystem::perms::others_all,
              std::filesystem::perms::none);
    EXPECT_THAT(message_of<WorldError>([&] { HttpServer("unix:" + path.string(), echo); }),
                HasSubstr("another server is running"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(http_ask(path, {"GET", "/status"}).ok());
}

TEST(HttpServer, BadPlacesAreRefused) {
  EXPECT_THAT(message_of<ConfigError>([] { HttpServer("nowhere", echo); }), HasSubstr("give IP:PORT"));
  EXPECT_THAT(message_of<ConfigError>([] { HttpServer("127.0.0.1:99999", echo); }), HasSubstr("give IP:PORT"));
}

TEST(HttpServer, GarbageAndSilenceEndInTime) {
  const TemporaryFolder folder;
  const int port = 20'000 + ::getpid() % 20'000;
  const HttpServer server("127.0.0.1:" + std::to_string(port), echo);
  const auto ask = [port](const std::string& bytes) {
    const int connection = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    (void)!::write(connection, bytes.data(), bytes.size());
    std::string reply(200, '\0');
    const auto got = ::read(connection, reply.data(), reply.size());
    reply.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    ::close(connection);
    return reply;
  };
  EXPECT_THAT(ask("GET /status HTTP/1.1\r\n\r\n"), HasSubstr("GET /status"));
  EXPECT_THAT(ask(std::string(5000, 'a')), HasSubstr("400"));
  EXPECT_THAT(ask("GET /sta"), HasSubstr("400"));  // after two seconds
}

}  // namespace
}  // namespace chorus::inline control
