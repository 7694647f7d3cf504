#pragma once

#include <atomic>
#include <ctime>
#include <list>
#include <mutex>
#include <string>
#include <thread>

#include "infrastructure/transport/grpc/grpc_transport.h"
#include "tests/support.h"

namespace chorus::inline integration {

/// A relay to a local port whose connections a test can cut.
class Relay {
 public:
  explicit Relay(int target);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  std::string address() const;
  /// Ends all connections at once, like a pulled cable that the operating systems detect.
  void cut();
  /// While it is blocked, new connections end at once.
  void block(bool blocked) { blocked_ = blocked; }
  int connections() const { return connections_; }

 private:
  void accept_all();
  void forward(int from, int to);

  int target_, listener_, port_ = 0;
  std::atomic<int> connections_ = 0;
  std::atomic<bool> blocked_ = false;
  std::mutex mutex_;
  std::list<int> sockets_;
  std::list<std::thread> threads_;
  std::thread acceptor_;
};

/// The port of "host:port".
int port_of(const std::string& address);
/// A TCP socket connected to a local port.
int connect_to(int port);

/// A private authority and PEM files signed by it.
class Authority {
 public:
  explicit Authority(const std::string& name = "fleet");
  /// Writes NAME.crt and NAME.key; `from` and `until` are seconds from now.
  TlsFiles issue(const std::string& name, bool server = false, std::time_t from = -60, std::time_t until = 3600) const;
  const std::string& root() const { return root_; }
  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }

 private:
  TemporaryFolder folder_;
  std::string key_, root_;
};

}  // namespace chorus::inline integration
