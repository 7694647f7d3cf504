#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "core/base/rng.h"
#include "infrastructure/transport/mailbox/mailbox.h"

namespace chorus::inline contract {

/// How often a letter is lost, comes twice, comes late (and so out of order), is damaged, or takes its sender's
/// connection with it.
struct Faults {
  double drop = 0, duplicate = 0, delay = 0, damage = 0, disconnect = 0;
};

/// Delivers letters between mailboxes of this process, with faults that follow from a seed: what happens to the n-th
/// letter of a sender is the same in every run.
class FaultyNetwork {
 public:
  FaultyNetwork(std::uint64_t seed, const Faults& faults);
  ~FaultyNetwork();
  FaultyNetwork(const FaultyNetwork&) = delete;
  FaultyNetwork& operator=(const FaultyNetwork&) = delete;

  /// The address "server" is the server's.
  std::unique_ptr<Mailbox> mailbox(const std::string& address);

  // For the mailboxes.
  void enlist(const std::string& address, Mailbox::Receive receive);
  void dismiss(const std::string& address);
  void post(const std::string& from, const std::string& to, std::string bytes);

 private:
  using Moment = std::chrono::steady_clock::time_point;
  struct Parcel {
    std::string to;
    Letter letter;
  };
  void deliver();

  const std::uint64_t seed_;
  const Faults faults_;
  std::mutex mutex_, delivering_;
  std::condition_variable changed_;
  std::multimap<Moment, Parcel> under_way_;
  std::map<std::string, std::uint64_t> sent_;  // letters of each sender
  std::map<std::string, bool> cut_;
  std::map<std::string, Mailbox::Receive> receivers_;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace chorus::inline contract
