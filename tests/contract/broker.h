#pragma once

#include <sys/types.h>

#include <string>

#include "tests/support.h"

namespace chorus::inline contract {

/// A mosquitto broker of this process's own, on loopback. `address` is empty where none is installed.
class Broker {
 public:
  /// `more`: lines of its configuration.
  explicit Broker(const std::string& more = "allow_anonymous true\n");
  ~Broker();
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;
  const std::string& address() const { return address_; }

 private:
  TemporaryFolder folder_;
  pid_t child_ = -1;
  std::string address_;
};

}  // namespace chorus::inline contract
