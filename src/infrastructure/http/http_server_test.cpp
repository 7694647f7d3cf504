#include "infrastructure/http/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "infrastructure/http/visitor_test.h"
#include "tests/support.h"

namespace chorus::inline http {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

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
  EXPECT_THAT(message_of<WorldError>([&] { HttpServer again(server.port(), {}); }), HasSubstr("--port"));
}

}  // namespace
}  // namespace chorus::inline http
