#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>

namespace chorus::inline tests {

/// A mosquitto broker that ends with its test.
class Broker {
 public:
  /// Empty: mosquitto is not installed.
  static std::string program() {
    for (const char* path : {"/usr/sbin/mosquitto", "/usr/local/sbin/mosquitto", "/usr/bin/mosquitto"}) {
      if (std::filesystem::exists(path)) return path;
    }
    return "";
  }

  Broker(const std::filesystem::path& config, int port) {
    child_ = ::fork();
    if (child_ == 0) {
      const std::string name = program();
      const int log = ::open((config.string() + ".log").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      ::dup2(log, 1);
      ::dup2(log, 2);
      ::execl(name.c_str(), name.c_str(), "-c", config.c_str(), nullptr);
      ::_exit(127);
    }
    for (int i = 0; i < 500 && !(ready_ = answers(port)); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  ~Broker() { stop(); }
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;
  bool ready() const { return ready_; }
  void send(int signal) const { ::kill(child_, signal); }
  void stop() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    child_ = -1;
  }

 private:
  static bool answers(int port) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const bool reached = ::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    ::close(socket);
    return reached;
  }

  pid_t child_ = -1;
  bool ready_ = false;
};

}  // namespace chorus::inline tests
