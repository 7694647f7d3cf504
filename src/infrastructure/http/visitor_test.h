#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>

namespace chorus::inline http {

/// A connection to the loopback address, as raw as possible.
class Visitor {
 public:
  explicit Visitor(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    const timeval limit{5, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  ~Visitor() { ::close(socket_); }
  Visitor(const Visitor&) = delete;
  Visitor& operator=(const Visitor&) = delete;

  void say(const std::string& text) const {
    EXPECT_EQ(::send(socket_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  /// Until the text occurs, the server closes, or five seconds have passed.
  std::string hear(const std::string& until = "\n no such text") {
    char buffer[4096];
    while (heard_.find(until) == std::string::npos) {
      const ssize_t got = ::recv(socket_, buffer, sizeof buffer, 0);
      if (got <= 0) break;
      heard_.append(buffer, static_cast<std::size_t>(got));
    }
    return heard_;
  }

 private:
  int socket_;
  std::string heard_;
};

/// Everything the server answers to one request.
inline std::string ask(std::uint16_t port, const std::string& line, const std::string& headers = "",
                       const std::string& body = "") {
  Visitor visitor(port);
  const std::string length = body.empty() ? "" : "Content-Length: " + std::to_string(body.size()) + "\r\n";
  visitor.say(line + " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port) + "\r\n" + length + headers + "\r\n" +
              body);
  return visitor.hear();
}

}  // namespace chorus::inline http
