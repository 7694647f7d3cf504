#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "apps/serving/control_room.h"
#include "core/ports/federation.h"

namespace chorus::inline serving {

/// What a client of a server does now, for those who watch.
///
/// | state | meaning |
/// |---|---|
/// | joined | connected, and not asked for anything |
/// | working | asked, and has not replied yet |
/// | late | has worked twice as long as the median of those who replied, or the round went on without it |
/// | gone | not connected |
/// | resting | connected, and not asked for a while: it refused a request, or took too long (ServedClients::states) |
///
/// Nobody waits for a client that works in the background (Request::background), so it is never late for working long.
struct ClientNow {
  std::string name, state;
  double seconds = 0;  ///< since it was asked, of one that works or is late; else of its last reply
};

/// Who works and who is late. Used by the thread that asks.
///
///     board.asked(cohort, now, request.background);
///     board.replied(reply, now, request.background);
///     board.states(federation.roster(), now);
class ClientBoard {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void asked(std::span<const ClientId> cohort, Time now, bool background = false);
  void replied(const Reply& reply, Time now, bool background = false);
  /// All members of the roster, by id.
  std::vector<ClientNow> states(const Roster& roster, Time now) const;

 private:
  struct Place {
    Time since = {};
    bool works = false, late = false;
    double seconds = 0;
    bool background = false;  // so it works
  };
  std::map<ClientId, Place> places_;
  std::vector<double> replies_;  // seconds of those to the current request
};

/// What a server does now as JSON for its run folder's server.json, which the dashboard reads. Text of clients is
/// shortened.
std::string server_json(const ServerStatus& status, std::span<const ClientNow> clients);

}  // namespace chorus::inline serving
