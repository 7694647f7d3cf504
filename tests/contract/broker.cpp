#include "tests/contract/broker.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

namespace chorus::inline contract {
namespace {

bool answers(int port) {
  const int connection = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool there = ::connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  ::close(connection);
  return there;
}

}  // namespace

Broker::Broker(const std::string& more) {
  const int port = 40'000 + ::getpid() % 20'000;
  std::ofstream(folder_ / "mosquitto.conf") << "listener " << port << " 127.0.0.1\nmax_queued_messages 0\n"
                                            << "user " << (::getuid() == 0 ? "root" : "") << "\n"
                                            << more;
  child_ = ::fork();
  if (child_ == 0) {
    if (::freopen((folder_ / "log").c_str(), "w", stderr) == nullptr) ::_exit(99);
    const std::string config = (folder_ / "mosquitto.conf").string();
    for (const char* program : {"/usr/sbin/mosquitto", "/usr/local/sbin/mosquitto"}) {
      ::execl(program, program, "-c", config.c_str(), nullptr);
    }
    ::_exit(97);
  }
  for (int i = 0; i < 100 && ::waitpid(child_, nullptr, WNOHANG) == 0; ++i) {
    if (answers(port)) {
      address_ = "127.0.0.1:" + std::to_string(port);
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

Broker::~Broker() {
  if (address_.empty()) return;
  ::kill(child_, SIGTERM);
  ::waitpid(child_, nullptr, 0);
}

}  // namespace chorus::inline contract
