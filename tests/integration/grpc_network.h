#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <fstream>
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
  /// From now on nothing passes, and no end hears of it: a cable that is pulled far away.
  void freeze() { frozen_ = true; }
  /// From now on so many bytes per second pass, in each direction of a connection.
  void slow_down(std::size_t bytes_per_second) { rate_ = bytes_per_second; }
  int connections() const { return connections_; }

 private:
  void accept_all();
  void forward(int from, int to);

  int target_, listener_, port_ = 0;
  std::atomic<int> connections_ = 0;
  std::atomic<bool> blocked_ = false, frozen_ = false;
  std::atomic<std::size_t> rate_ = 0;  // 0: any
  std::mutex mutex_;
  std::list<int> sockets_;
  std::list<std::thread> threads_;
  std::thread acceptor_;
};

/// This program again, in another process: it runs GrpcChild.DISABLED_TEST at an address until it is killed, with the
/// certificate that it finds in `tls`.
class TestProcess {
 public:
  TestProcess(const std::string& test, const std::string& address, const TlsFiles& tls = {}) {
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::setenv("CHORUS_TEST_ADDRESS", address.c_str(), 1);
    ::setenv("CHORUS_TEST_CERTIFICATE", tls.certificate.c_str(), 1);
    ::setenv("CHORUS_TEST_KEY", tls.key.c_str(), 1);
    ::setenv("CHORUS_TEST_AUTHORITY", tls.authority.c_str(), 1);
    const std::string filter = "--gtest_filter=GrpcChild.DISABLED_" + test;
    ::execl("/proc/self/exe", "grpc_test", "--gtest_also_run_disabled_tests", "--gtest_brief=1", filter.c_str(),
            nullptr);
    ::_exit(1);
  }
  ~TestProcess() { kill(); }
  TestProcess(const TestProcess&) = delete;
  TestProcess& operator=(const TestProcess&) = delete;
  /// Its peak memory.
  double peak_mebibytes() const {
    std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
    for (std::string word; status >> word;) {
      double kibibytes = 0;
      if (word == "VmHWM:" && status >> kibibytes) return kibibytes / 1024;
    }
    return 0;
  }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
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
