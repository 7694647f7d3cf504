#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

namespace chorus::inline http {

/// A descriptor that is closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  int get() const { return value_; }

 private:
  int value_;
};

/// A socket that waits for connections. The file of a Unix socket is removed at the end.
class Listener {
 public:
  /// A port of 127.0.0.1; 0: any free one. WorldError when it is taken.
  static Listener loopback(std::uint16_t port);
  /// IP:PORT (an IPv4 address or localhost), or unix:PATH, which only the owner may use. ConfigError for anything else,
  /// WorldError when it is taken.
  static Listener at(const std::string& place);

  Listener(Listener&&) noexcept = default;
  Listener& operator=(Listener&&) = delete;
  ~Listener();

  int descriptor() const { return socket_.get(); }
  std::uint16_t port() const { return port_; }         ///< 0 of a Unix socket
  bool for_browsers() const { return for_browsers_; }  ///< made by `loopback`

 private:
  explicit Listener(Descriptor socket) : socket_(std::move(socket)) {}
  static Listener unix_socket(const std::filesystem::path& path);
  static Listener tcp(const std::string& host, std::uint16_t port);

  Descriptor socket_;
  std::filesystem::path path_ = {};
  std::uint16_t port_ = 0;
  bool for_browsers_ = false;
};

/// A connection to a Unix socket; negative when nobody listens there (errno says why). Works for paths of any length.
Descriptor connect_unix(const std::filesystem::path& path);

}  // namespace chorus::inline http
