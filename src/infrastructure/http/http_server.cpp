#include "infrastructure/http/http_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>

namespace chorus::inline http {
namespace {

constexpr std::size_t kMostHead = 16 << 10, kMostBody = 64 << 10;
constexpr int kSecondsToSpeak = 3;

bool send_all(int connection, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

std::string_view reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 413:
      return "Content Too Large";
    default:
      return "Error";
  }
}

bool answer(int connection, const HttpResponse& response) {
  std::string head = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nConnection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: "
      "nosniff\r\nReferrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\nX-Frame-Options: "
      "DENY\r\n",
      response.status, reason_of(response.status), response.type);
  for (const auto& [name, value] : response.headers) head += fmt::format("{}: {}\r\n", name, value);
  if (!response.stream) head += fmt::format("Content-Length: {}\r\n", response.body.size());
  return send_all(connection, head + "\r\n") && (response.stream || send_all(connection, response.body));
}

/// Reads a request; its status when it is none that can be answered, else 200. 0: nobody is there any more.
int read_request(int connection, HttpRequest& request) {
  std::string bytes;
  std::size_t head_end = std::string::npos;
  char buffer[4096];
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(kSecondsToSpeak);
  const auto read_more = [&] {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(limit - std::chrono::steady_clock::now());
    pollfd ready{connection, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) <= 0) return false;
    const ssize_t got = ::recv(connection, buffer, sizeof buffer, 0);
    if (got > 0) bytes.append(buffer, static_cast<std::size_t>(got));
    return got > 0;
  };
  while ((head_end = bytes.find("\r\n\r\n")) == std::string::npos) {
    if (bytes.size() > kMostHead) return 413;
    if (!read_more()) return bytes.empty() ? 0 : 400;
  }
  if (head_end > kMostHead) return 413;
  if (!parse_head(std::string_view(bytes).substr(0, head_end), request)) return 400;
  std::size_t length = 0;
  if (const auto found = request.headers.find("content-length"); found != request.headers.end()) {
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    if (error != std::errc() || end != text.data() + text.size()) return 400;
  }
  if (request.headers.contains("transfer-encoding")) return 400;
  if (length > kMostBody) return 413;
  const std::size_t begin = head_end + 4;
  while (bytes.size() < begin + length) {
    if (!read_more()) return 400;
  }
  request.body = bytes.substr(begin, length);
  return 200;
}

}  // namespace

bool parse_head(std::string_view head, HttpRequest& request) {
  const std::size_t line_end = std::min(head.find("\r\n"), head.size());
  const std::string_view line = head.substr(0, line_end);
  const std::size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last || !line.substr(last + 1).starts_with("HTTP/1.")) return false;
  request.method = line.substr(0, first);
  std::string_view target = line.substr(first + 1, last - first - 1);
  if (!target.starts_with('/')) return false;
  request.path = target.substr(0, target.find('?'));
  std::string_view rest = head.substr(std::min(line_end + 2, head.size()));
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find("\r\n"), rest.size());
    const std::string_view header = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 2, rest.size()));
    const std::size_t colon = header.find(':');
    if (colon == std::string_view::npos || colon == 0) return false;
    std::string name(header.substr(0, colon));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    std::string_view value = header.substr(colon + 1);
    while (value.starts_with(' ') || value.starts_with('\t')) value.remove_prefix(1);
    while (value.ends_with(' ') || value.ends_with('\t')) value.remove_suffix(1);
    if (!request.headers.emplace(std::move(name), value).second) return false;
  }
  return true;
}

HttpServer::HttpServer(Listener listener, Handler handler)
    : listener_(std::move(listener)), handler_(std::move(handler)) {
  acceptor_ = std::thread([this] { accept_connections(); });
}

HttpServer::~HttpServer() {
  ending_ = true;
  ::shutdown(listener_.descriptor(), SHUT_RDWR);
  acceptor_.join();
  for (auto& [connection, thread] : connections_) ::shutdown(connection, SHUT_RDWR);
  for (auto& [connection, thread] : connections_) {
    thread.join();
    ::close(connection);
  }
}

void HttpServer::tidy() {
  std::vector<int> ended;
  {
    const std::lock_guard lock(mutex_);
    ended.swap(ended_);
  }
  for (const int connection : ended) {
    connections_.at(connection).join();
    connections_.erase(connection);
    ::close(connection);
  }
}

void HttpServer::accept_connections() {
  while (!ending_) {
    const int connection = ::accept4(listener_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (ending_) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));  // out of descriptors
      continue;
    }
    const timeval limit{kSecondsToSpeak, 0};
    ::setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    tidy();
    if (connections_.size() >= kMostConnections) {
      ::close(connection);
      continue;
    }
    connections_.emplace(connection, std::thread([this, connection] { serve(connection); }));
  }
}

bool HttpServer::allows(const HttpRequest& request) const {
  if (!listener_.for_browsers()) return true;
  const auto found = request.headers.find("host");
  if (found == request.headers.end()) return false;
  for (const char* name : {"127.0.0.1", "localhost"}) {
    if (found->second == fmt::format("{}:{}", name, port())) return true;
  }
  return false;
}

void HttpServer::serve(int connection) {
  HttpRequest request;
  const int status = read_request(connection, request);
  HttpResponse response{.status = status, .body = "This is not a request that can be answered.\n"};
  if (status == 200 && !allows(request)) {
    response = {.status = 403, .body = "Open this page at http://127.0.0.1.\n"};
  } else if (status == 200) {
    try {
      response = handler_(request);
    } catch (const std::exception& error) {
      response = {.status = 500, .body = std::string(error.what()) + "\n"};
    }
  }
  if (status != 0 && answer(connection, response) && response.stream) {
    response.stream([&](std::string_view bytes) { return !ending_ && send_all(connection, bytes); });
  }
  ::shutdown(connection, SHUT_RDWR);  // closed by tidy: the number must stay taken until the thread is joined
  const std::lock_guard lock(mutex_);
  ended_.push_back(connection);
}

}  // namespace chorus::inline http
