#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "core/base/result.h"

namespace chorus::inline control {

struct HttpRequest {
  std::string method;  ///< GET, POST
  std::string path;    ///< /status
};
struct HttpResponse {
  int status = 200;
  std::string body = {};
  std::string type = "text/plain; charset=utf-8";
};
using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

/// A few pages over HTTP/1.1 for operators: metrics and health on a port, commands on a socket of the file system,
/// whose permissions decide who may use it. One request per connection, one connection at a time, at most 4 KiB and 2
/// seconds each. Runs on a thread of its own until it is destroyed.
///
///     HttpServer server("127.0.0.1:9464", [&](const HttpRequest& request) { return HttpResponse{200, "ok\n"}; });
class HttpServer {
 public:
  /// `place`: host:port (an IPv4 address or localhost), or unix:PATH. The handler is called on the server's thread;
  /// what it throws becomes status 500. WorldError when the place is taken.
  HttpServer(const std::string& place, HttpHandler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

 private:
  void serve();
  void answer(int connection);

  HttpHandler handler_;
  std::filesystem::path socket_;  // of the file system; removed at the end
  int listener_ = -1;
  std::atomic<bool> closing_ = false;
  std::thread thread_;
};

/// One request to a server on a socket of the file system. A failure (kDisconnected): nobody listens there.
Result<HttpResponse> http_ask(const std::filesystem::path& socket, const HttpRequest& request, double seconds = 10);

}  // namespace chorus::inline control
