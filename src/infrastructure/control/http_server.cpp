#include "infrastructure/control/http_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstring>
#include <sstream>

#include "core/base/error.h"
#include "core/console/log.h"

namespace chorus::inline control {
namespace {

namespace fs = std::filesystem;
using HttpClock = std::chrono::steady_clock;

constexpr std::size_t kMostRequest = 4096;
constexpr std::size_t kMostResponse = 16U << 20U;
constexpr double kRequestSeconds = 2;
constexpr int kAcceptMilliseconds = 100;
constexpr const char* kUnix = "unix:";

/// A descriptor that is closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }
  int release() { return std::exchange(value_, -1); }

 private:
  int value_;
};

/// An address of a socket with a path of any length: through its folder's descriptor, because the system allows 107
/// bytes.
sockaddr_un unix_address(const Descriptor& folder, const fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string text = fmt::format("/proc/self/fd/{}/{}", folder.get(), path.filename().string());
  if (folder.get() < 0 || text.size() >= sizeof address.sun_path) {
    throw DataError(fmt::format("{} cannot be a socket; is the folder there?", path.string()));
  }
  std::memcpy(address.sun_path, text.data(), text.size());
  return address;
}

Descriptor folder_of(const fs::path& path) {
  const fs::path parent = path.parent_path().empty() ? fs::path(".") : path.parent_path();
  return Descriptor(::open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

int listen_unix(const fs::path& path) {
  const Descriptor folder = folder_of(path);
  const sockaddr_un address = unix_address(folder, path);
  const auto* general = reinterpret_cast<const sockaddr*>(&address);  // NOLINT
  Descriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(probe.get(), general, sizeof address) == 0) {
    throw WorldError(fmt::format("{}: another server is running here", path.string()));
  }
  ::unlink(path.c_str());  // of a server that was killed
  Descriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const mode_t before = ::umask(0177);
  const int bound = ::bind(listener.get(), general, sizeof address);
  ::umask(before);
  if (bound != 0 || ::listen(listener.get(), 8) != 0) {
    throw WorldError(fmt::format("{} cannot be opened: {}", path.string(), std::strerror(errno)));
  }
  return listener.release();
}

int listen_tcp(const std::string& place) {
  const std::size_t colon = place.rfind(':');
  std::string host = place.substr(0, colon);
  if (host == "localhost") host = "127.0.0.1";
  sockaddr_in address{};
  address.sin_family = AF_INET;
  unsigned port = 0;
  const char* begin = place.data() + (colon == std::string::npos ? place.size() : colon + 1);
  const auto [end, error] = std::from_chars(begin, place.data() + place.size(), port);
  if (colon == std::string::npos || error != std::errc() || end != place.data() + place.size() || port == 0 ||
      port > 65535 || ::inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) {
    throw ConfigError(fmt::format("\"{}\" is no address to listen at; give IP:PORT, such as 127.0.0.1:9464", place));
  }
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||  // NOLINT
      ::listen(listener.get(), 8) != 0) {
    throw WorldError(fmt::format("cannot listen on {}: {}", place, std::strerror(errno)));
  }
  return listener.release();
}

/// Until `done`, so many bytes, the end of the stream, or the time is up.
template <typename Done>
std::string read_until(int connection, std::size_t most, double seconds, Done done) {
  std::string bytes;
  const auto limit = HttpClock::now() + std::chrono::duration<double>(seconds);
  while (bytes.size() < most && !done(bytes)) {
    const double left = std::chrono::duration<double>(limit - HttpClock::now()).count();
    pollfd ready{connection, POLLIN, 0};
    if (left <= 0 || ::poll(&ready, 1, static_cast<int>(left * 1000) + 1) <= 0) break;
    char buffer[4096];
    const auto got = ::recv(connection, buffer, std::min(sizeof buffer, most - bytes.size()), 0);
    if (got <= 0) break;
    bytes.append(buffer, static_cast<std::size_t>(got));
  }
  return bytes;
}

bool write_all(int connection, std::string_view bytes, double seconds) {
  const auto limit = HttpClock::now() + std::chrono::duration<double>(seconds);
  while (!bytes.empty()) {
    const double left = std::chrono::duration<double>(limit - HttpClock::now()).count();
    pollfd ready{connection, POLLOUT, 0};
    if (left <= 0 || ::poll(&ready, 1, static_cast<int>(left * 1000) + 1) <= 0) return false;
    const auto put = ::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put < 0 && errno != EAGAIN) return false;
    if (put > 0) bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

bool has_head(const std::string& bytes) { return bytes.find("\r\n\r\n") != std::string::npos; }

const char* reason(int status) {
  return status == 200 ? "OK" : status == 404 ? "Not Found" : status == 503 ? "Service Unavailable" : "Error";
}

}  // namespace

HttpServer::HttpServer(const std::string& place, HttpHandler handler) : handler_(std::move(handler)) {
  if (place.starts_with(kUnix)) {
    socket_ = place.substr(std::strlen(kUnix));
    listener_ = listen_unix(socket_);
  } else {
    listener_ = listen_tcp(place);
  }
  thread_ = std::thread([this] { serve(); });
}

HttpServer::~HttpServer() {
  closing_ = true;
  thread_.join();
  ::close(listener_);
  if (!socket_.empty()) ::unlink(socket_.c_str());
}

void HttpServer::serve() {
  while (!closing_) {
    pollfd waiting{listener_, POLLIN, 0};
    if (::poll(&waiting, 1, kAcceptMilliseconds) <= 0) continue;
    const Descriptor connection(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC));
    if (connection.get() >= 0) answer(connection.get());
  }
}

void HttpServer::answer(int connection) {
  const std::string head = read_until(connection, kMostRequest, kRequestSeconds, has_head);
  HttpRequest request;
  std::istringstream(head) >> request.method >> request.path;
  HttpResponse response{400, "this is no request\n"};
  if (has_head(head) && !request.path.empty()) {
    try {
      response = handler_(request);
    } catch (const std::exception& error) {
      Log("control").error("{} {}: {}", request.method, request.path, error.what());
      response = {500, "it failed; the server's log says why\n"};
    }
  }
  write_all(connection,
            fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
                        response.status, reason(response.status), response.type, response.body.size(), response.body),
            kRequestSeconds);
}

Result<HttpResponse> http_ask(const fs::path& socket, const HttpRequest& request, double seconds) {
  const Failure nobody{Failure::Kind::kDisconnected, fmt::format("nobody listens at {}", socket.string())};
  const Descriptor folder = folder_of(socket);
  if (folder.get() < 0) return nobody;
  const sockaddr_un address = unix_address(folder, socket);
  const Descriptor connection(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {  // NOLINT
    if (errno == EACCES) {
      return Failure{Failure::Kind::kRefused, fmt::format("{} belongs to another user", socket.string())};
    }
    return nobody;
  }
  if (!write_all(connection.get(), fmt::format("{} {} HTTP/1.1\r\nHost: chorus\r\n\r\n", request.method, request.path),
                 seconds)) {
    return Failure{Failure::Kind::kTimeout, "the server does not answer"};
  }
  const std::string bytes =
      read_until(connection.get(), kMostResponse, seconds, [](const std::string&) { return false; });
  const std::size_t end = bytes.find("\r\n\r\n");
  HttpResponse response;
  std::string version;
  if (end == std::string::npos || !(std::istringstream(bytes) >> version >> response.status)) {
    return Failure{Failure::Kind::kTimeout, "the server does not answer"};
  }
  response.body = bytes.substr(end + 4);
  return response;
}

}  // namespace chorus::inline control
