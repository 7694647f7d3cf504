#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "infrastructure/http/listener.h"

namespace chorus::inline http {

struct HttpRequest {
  std::string method, path;                         ///< the path without its query
  std::map<std::string, std::string> headers = {};  ///< names in lower case
  std::string body = {};
};

/// Sends some bytes; false when the reader has gone or the server ends.
using HttpSend = std::function<bool(std::string_view)>;

struct HttpResponse {
  int status = 200;
  std::string body = {};
  std::string type = "text/plain; charset=utf-8";
  std::vector<std::pair<std::string, std::string>> headers{};
  /// Set: called after the headers instead of sending a body, until it returns (server-sent events).
  std::function<void(const HttpSend&)> stream{};
};

/// A small HTTP/1.1 server: one request per connection, one thread per connection and at most `kMostConnections`.
/// Requests are limited in size and time. On a port of loopback, where browsers come from, it refuses other names in
/// the Host header, so that a page of another site cannot ask through a name that points here (DNS rebinding). A
/// library would bring TLS, proxies and encodings that nobody needs here.
///
///     HttpServer server(8765, [](const HttpRequest& request) { return HttpResponse{.body = "hello"}; });
///     open("http://127.0.0.1:" + std::to_string(server.port()));
class HttpServer {
 public:
  static constexpr std::size_t kMostConnections = 64;
  using Handler = std::function<HttpResponse(const HttpRequest&)>;

  /// The handler is called by several threads at once; what it throws becomes status 500.
  HttpServer(Listener listener, Handler handler);
  HttpServer(std::uint16_t port, Handler handler) : HttpServer(Listener::loopback(port), std::move(handler)) {}
  HttpServer(const std::string& place, Handler handler) : HttpServer(Listener::at(place), std::move(handler)) {}
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  /// Closes every connection and waits for their threads.
  ~HttpServer();

  std::uint16_t port() const { return listener_.port(); }

 private:
  void accept_connections();
  void serve(int connection);
  void tidy();
  bool allows(const HttpRequest& request) const;

  Listener listener_;
  Handler handler_;
  std::atomic<bool> ending_{false};
  std::map<int, std::thread> connections_;  // by descriptor; used by the acceptor, and by the destructor after it
  std::mutex mutex_;
  std::vector<int> ended_;  // guarded by mutex_: threads to join and descriptors to close
  std::thread acceptor_;
};

/// Parses the part of a request before its body; false when it is none.
bool parse_head(std::string_view head, HttpRequest& request);

}  // namespace chorus::inline http
