#include "infrastructure/http/http_ask.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <sstream>

#include "infrastructure/http/listener.h"

namespace chorus::inline http {
namespace {

constexpr std::size_t kMostResponse = 16U << 20U;

/// Everything until the server closes, or what came in time.
std::string read_all(int connection, double seconds) {
  std::string bytes;
  char buffer[4096];
  const auto limit = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (bytes.size() < kMostResponse) {
    const double left = std::chrono::duration<double>(limit - std::chrono::steady_clock::now()).count();
    pollfd ready{connection, POLLIN, 0};
    if (left <= 0 || ::poll(&ready, 1, static_cast<int>(left * 1000) + 1) <= 0) break;
    const auto got = ::recv(connection, buffer, sizeof buffer, 0);
    if (got <= 0) break;
    bytes.append(buffer, static_cast<std::size_t>(got));
  }
  return bytes;
}

}  // namespace

Result<HttpResponse> http_ask(const std::filesystem::path& socket, const HttpRequest& request, double seconds) {
  const Descriptor connection = connect_unix(socket);
  if (connection.get() < 0 && errno == EACCES) {
    return Failure{Failure::Kind::kRefused, fmt::format("{} belongs to another user", socket.string())};
  }
  if (connection.get() < 0) {
    return Failure{Failure::Kind::kDisconnected, fmt::format("nobody listens at {}", socket.string())};
  }
  const std::string head = fmt::format("{} {} HTTP/1.1\r\nHost: chorus\r\n\r\n", request.method, request.path);
  const auto sent = ::send(connection.get(), head.data(), head.size(), MSG_NOSIGNAL);
  const std::string bytes = sent == static_cast<ssize_t>(head.size()) ? read_all(connection.get(), seconds) : "";
  const std::size_t end = bytes.find("\r\n\r\n");
  HttpResponse response;
  std::string version;
  if (end == std::string::npos || !(std::istringstream(bytes) >> version >> response.status)) {
    return Failure{Failure::Kind::kTimeout, "the server does not answer"};
  }
  response.body = bytes.substr(end + 4);
  return response;
}

}  // namespace chorus::inline http
