#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "infrastructure/fleet/fleet_folder.h"

namespace chorus::inline fleet {

using TimeSource = std::function<std::time_t()>;

struct EnrolmentServerInput {
  std::filesystem::path folder;                         ///< of the fleet
  std::string address;                                  ///< host:port to listen at
  std::function<void(const std::string&)> joined = {};  ///< gets the name of every client that has enrolled
  double seconds = 10;                                  ///< a client may take
  TimeSource now = [] { return std::time(nullptr); };
};

/// Signs the certificates of invited clients, on threads of its own, until it is destroyed. A line of JSON each way
/// (docs/reference/formats.md). At most 16 clients at a time.
class EnrolmentServer {
 public:
  explicit EnrolmentServer(EnrolmentServerInput input);
  ~EnrolmentServer();
  EnrolmentServer(const EnrolmentServer&) = delete;
  EnrolmentServer& operator=(const EnrolmentServer&) = delete;

 private:
  struct Visit {
    std::thread thread;
    std::atomic<bool> over = false;
  };
  void accept_all();
  void receive(int socket);

  EnrolmentServerInput input_;
  int listener_;
  std::atomic<bool> closing_ = false;
  std::list<Visit> visits_;
  std::thread acceptor_;
};

/// The client's side: makes a key in `folder`, and gets a certificate for it. Errors as for FleetOffice::enrol; a
/// ConfigError when the folder holds an identity already.
FleetIdentity enrol(
    const FleetEnrolment& enrolment, const TimeSource& now = [] { return std::time(nullptr); });

/// Whom `folder` belongs to; nothing when nobody has enrolled there. DataError when it is damaged.
std::optional<FleetIdentity> read_identity(const std::filesystem::path& folder);
/// See FleetOffice.
bool joined_with(const std::filesystem::path& folder, const std::string& token);

}  // namespace chorus::inline fleet
