#include "infrastructure/http/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "infrastructure/http/http_ask.h"
#include "infrastructure/http/visitor_test.h"
#include "tests/support.h"

namespace chorus::inline http {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

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

TEST(HttpServer, AnswersProgramsWithoutAHostAtAPlace) {
  const std::string place = "127.0.0.1:" + std::to_string(20'000 + ::getpid() % 20'000);
  const HttpServer server(place, echo);
  Visitor program(server.port());
  program.say("GET /status HTTP/1.1\r\n\r\n");
  EXPECT_THAT(program.hear(), HasSubstr("GET /status"));
}

TEST(HttpServer, SlowRequestsEndInTime) {
  const HttpServer server(0, echo);
  Visitor slow(server.port());
  slow.say("GET /sta");
  EXPECT_THAT(slow.hear(), StartsWith("HTTP/1.1 400"));
}

TEST(HttpHead, IsParsedOrRefused) {
  HttpRequest request;
  EXPECT_TRUE(parse_head("GET /a?b=c HTTP/1.1\r\nHOST:  x \r\nX-Y: 1", request));
  EXPECT_EQ(request.path, "/a");
  EXPECT_EQ(request.headers.at("host"), "x");
  for (const char* bad : {"", "GET", "GET /", "GET x HTTP/1.1", "GET / SPDY/1", "GET / HTTP/1.1\r\nno colon",
                          "GET / HTTP/1.1\r\nHost: a\r\nhost: b", "GET / HTTP/1.1\r\n: x"}) {
    HttpRequest other;
    EXPECT_FALSE(parse_head(bad, other)) << bad;
  }
}

TEST(HttpServer, AnswersWhoNamesLoopbackOnly) {
  HttpServer server(0, [](const HttpRequest& request) { return HttpResponse{.body = "you said " + request.body}; });
  EXPECT_THAT(ask(server.port(), "POST /", "", "hello"), HasSubstr("you said hello"));
  Visitor elsewhere(server.port());
  elsewhere.say("GET / HTTP/1.1\r\nHost: evil.example:" + std::to_string(server.port()) + "\r\n\r\n");
  EXPECT_THAT(elsewhere.hear(), StartsWith("HTTP/1.1 403"));
  Visitor nobody(server.port());
  nobody.say("GET / HTTP/1.1\r\n\r\n");
  EXPECT_THAT(nobody.hear(), StartsWith("HTTP/1.1 403"));
}

TEST(HttpServer, SurvivesWhatIsNoRequest) {
  HttpServer server(0, [](const HttpRequest&) -> HttpResponse { throw DataError("not today"); });
  EXPECT_THAT(ask(server.port(), "GET /"), testing::AllOf(StartsWith("HTTP/1.1 500"), HasSubstr("not today")));
  for (const std::string& text : {std::string("\r\n\r\n"), std::string("\0\x01\xff\r\n\r\n", 7),
                                  std::string("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"),
                                  std::string("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")}) {
    Visitor visitor(server.port());
    visitor.say(text);
    EXPECT_THAT(visitor.hear(), StartsWith("HTTP/1.1 400"));
  }
  Visitor long_head(server.port());
  long_head.say("GET /" + std::string(20000, 'a'));
  EXPECT_THAT(long_head.hear(), StartsWith("HTTP/1.1 413"));
  Visitor long_body(server.port());
  long_body.say("POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n");
  EXPECT_THAT(long_body.hear(), StartsWith("HTTP/1.1 413"));
  for (int i = 0; i < 200; ++i) EXPECT_THAT(ask(server.port(), "GET /"), StartsWith("HTTP/1.1 500"));
  EXPECT_THAT(message_of<WorldError>([&] { HttpServer again(server.port(), {}); }), HasSubstr("choose another port"));
}

}  // namespace
}  // namespace chorus::inline http
