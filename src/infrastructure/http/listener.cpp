#include "infrastructure/http/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <system_error>

#include "core/base/error.h"

namespace chorus::inline http {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUnix = "unix:";
constexpr int kBacklog = 32;

std::string system_error(int error) { return std::generic_category().message(error); }

Descriptor open_folder_of(const fs::path& path) {
  const fs::path parent = path.parent_path().empty() ? fs::path(".") : path.parent_path();
  return Descriptor(::open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

/// Goes through the folder's descriptor, because the system allows 107 bytes only. Empty: there is no such folder.
std::optional<sockaddr_un> unix_address(const Descriptor& folder, const fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string text = fmt::format("/proc/self/fd/{}/{}", folder.get(), path.filename().string());
  if (folder.get() < 0 || text.size() >= sizeof address.sun_path) return std::nullopt;
  std::memcpy(address.sun_path, text.data(), text.size());
  return address;
}

template <typename Address>
const sockaddr* general(const Address& address) {
  return reinterpret_cast<const sockaddr*>(&address);  // NOLINT(cppcoreguidelines-pro-type-reinterpret-cast)
}

}  // namespace

Descriptor::~Descriptor() {
  if (value_ >= 0) ::close(value_);
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(value_, other.value_);
  return *this;
}

Listener::~Listener() {
  if (!path_.empty() && socket_.get() >= 0) ::unlink(path_.c_str());
}

Listener Listener::loopback(std::uint16_t port) {
  Listener listener = tcp("127.0.0.1", port);
  listener.for_browsers_ = true;
  return listener;
}

Listener Listener::at(const std::string& place) {
  if (place.starts_with(kUnix)) return unix_socket(place.substr(std::strlen(kUnix)));
  const std::size_t colon = place.rfind(':');
  const char* begin = place.data() + (colon == std::string::npos ? place.size() : colon + 1);
  unsigned port = 0;
  const auto [end, error] = std::from_chars(begin, place.data() + place.size(), port);
  std::string host = place.substr(0, colon);
  if (host == "localhost") host = "127.0.0.1";
  in_addr parsed{};
  if (error != std::errc() || end != place.data() + place.size() || port == 0 || port > 65535 ||
      ::inet_pton(AF_INET, host.c_str(), &parsed) != 1) {
    throw ConfigError(fmt::format("\"{}\" is no address to listen at; give IP:PORT, such as 127.0.0.1:9464", place));
  }
  return tcp(host, static_cast<std::uint16_t>(port));
}

Listener Listener::tcp(const std::string& host, std::uint16_t port) {
  Listener listener(Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)));
  const int yes = 1;
  ::setsockopt(listener.descriptor(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  ::inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  socklen_t size = sizeof address;
  if (::bind(listener.descriptor(), general(address), size) != 0 || ::listen(listener.descriptor(), kBacklog) != 0 ||
      ::getsockname(listener.descriptor(), const_cast<sockaddr*>(general(address)), &size) != 0) {
    throw WorldError(
        fmt::format("cannot listen on port {} of {}: {}; choose another port", port, host, system_error(errno)));
  }
  listener.port_ = ntohs(address.sin_port);
  return listener;
}

Listener Listener::unix_socket(const fs::path& path) {
  if (connect_unix(path).get() >= 0) {
    throw WorldError(fmt::format("{}: another server is running here", path.string()));
  }
  const Descriptor folder = open_folder_of(path);
  const auto address = unix_address(folder, path);
  if (!address) throw DataError(fmt::format("{} cannot be a socket; is the folder there?", path.string()));
  ::unlink(path.c_str());  // of a server that was killed
  Listener listener(Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)));
  const mode_t before = ::umask(0177);
  const int bound = ::bind(listener.descriptor(), general(*address), sizeof *address);
  const int error = errno;
  ::umask(before);
  if (bound != 0 || ::listen(listener.descriptor(), kBacklog) != 0) {
    throw WorldError(fmt::format("{} cannot be opened: {}", path.string(), system_error(bound != 0 ? error : errno)));
  }
  listener.path_ = path;
  return listener;
}

Descriptor connect_unix(const fs::path& path) {
  const Descriptor folder = open_folder_of(path);
  const auto address = unix_address(folder, path);
  if (!address) return Descriptor();
  Descriptor connection(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return ::connect(connection.get(), general(*address), sizeof *address) == 0 ? std::move(connection) : Descriptor();
}

}  // namespace chorus::inline http
