// Whatever somebody sends to the port of metrics or to the dashboard's, the server answers with HTTP or hangs up
// (tools/fuzz). The handler sees only requests within the limits.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>

#include "infrastructure/http/http_server.h"

namespace {

using namespace chorus;

HttpResponse handle(const HttpRequest& request) {
  if (!request.path.starts_with('/') || request.body.size() > 64U << 10U) std::abort();
  for (const auto& [name, value] : request.headers) {
    if (name.empty() || value.find("\r\n") != std::string::npos) std::abort();
  }
  return {.body = request.method + request.path + request.body};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const auto kPath = std::filesystem::temp_directory_path() / ("http_fuzz." + std::to_string(::getpid()));
  const HttpServer server("unix:" + kPath.string(), handle);
  HttpRequest request;
  (void)parse_head({reinterpret_cast<const char*>(bytes), size}, request);
  const Descriptor connection = connect_unix(kPath);
  if (connection.get() < 0) std::abort();
  (void)::send(connection.get(), bytes, size, MSG_NOSIGNAL);
  ::shutdown(connection.get(), SHUT_WR);
  std::string answer;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::recv(connection.get(), buffer, sizeof buffer, 0)) > 0;) {
    answer.append(buffer, static_cast<std::size_t>(got));
  }
  if (!answer.empty() && !answer.starts_with("HTTP/1.1 ")) std::abort();
  return 0;
}
