#include "tests/integration/grpc_network.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>

#include "core/base/error.h"
#include "infrastructure/certificates/certificate.h"

namespace chorus::inline integration {
namespace {

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

}  // namespace

int port_of(const std::string& address) { return std::stoi(address.substr(address.rfind(':') + 1)); }

int connect_to(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in address = loopback(port);
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return socket;
  ::close(socket);
  return -1;
}

Relay::Relay(int target) : target_(target), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  check(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), size) == 0, "bind");
  check(::listen(listener_, 64) == 0, "listen");
  check(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0, "getsockname");
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

Relay::~Relay() {
  frozen_ = false;
  ::shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  ::close(listener_);
  cut();
  for (std::thread& thread : threads_) thread.join();
  for (const int socket : sockets_) ::close(socket);
}

std::string Relay::address() const { return "127.0.0.1:" + std::to_string(port_); }

void Relay::cut() {
  const std::lock_guard lock(mutex_);
  for (const int socket : sockets_) ::shutdown(socket, SHUT_RDWR);
}

void Relay::accept_all() {
  for (;;) {
    const int near = ::accept(listener_, nullptr, nullptr);
    if (near < 0) return;
    ++connections_;
    const int far = blocked_ ? -1 : connect_to(target_);
    const std::lock_guard lock(mutex_);
    sockets_.push_back(near);
    if (far < 0) {
      ::shutdown(near, SHUT_RDWR);
      continue;
    }
    sockets_.push_back(far);
    threads_.emplace_back([this, near, far] { forward(near, far); });
    threads_.emplace_back([this, near, far] { forward(far, near); });
  }
}

void Relay::forward(int from, int to) {
  char buffer[16384];
  for (ssize_t got = 0; (got = ::recv(from, buffer, sizeof buffer, 0)) > 0;) {
    while (frozen_) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    for (ssize_t sent = 0; sent < got;) {
      const ssize_t now = ::send(to, buffer + sent, static_cast<std::size_t>(got - sent), MSG_NOSIGNAL);
      if (now <= 0) break;
      sent += now;
    }
    if (rate_ > 0) {
      std::this_thread::sleep_for(std::chrono::duration<double>(static_cast<double>(got) / static_cast<double>(rate_)));
    }
  }
  ::shutdown(to, SHUT_RDWR);
}

Authority::Authority(const std::string& name)
    : key_(make_key()), root_(make_authority({key_, name, std::time(nullptr) - 86'400, std::time(nullptr) + 86'400})) {
  std::ofstream(folder_ / "authority.crt") << root_;
}

TlsFiles Authority::issue(const std::string& name, bool server, std::time_t from, std::time_t until) const {
  const std::time_t now = std::time(nullptr);
  const std::string key = make_key();
  const TlsFiles files{(folder_ / (name + ".crt")).string(), (folder_ / (name + ".key")).string(),
                       (folder_ / "authority.crt").string()};
  std::ofstream(files.key) << key;
  std::ofstream(files.certificate) << sign_request({root_, key_, make_request(key, name), name, now + from, now + until,
                                                    server ? CertificateRole::kServer : CertificateRole::kClient});
  return files;
}

}  // namespace chorus::inline integration
