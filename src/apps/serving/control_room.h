#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/ports/federation.h"
#include "infrastructure/http/http_server.h"

namespace chorus::inline serving {

inline constexpr const char* kResting = "resting";  ///< a state of ServerStatus::doing

/// What a server is doing, for those who ask.
struct ServerStatus {
  std::string run;                 ///< its folder
  std::string state = "starting";  ///< starting, waiting, training, paused, stopping, finished
  std::string waiting_for = {};    ///< for people
  std::int64_t round = 0;          ///< the last one that is done
  std::int64_t rounds = 0;         ///< of the whole run
  std::size_t needed = 0;          ///< clients that a round needs
  std::string metric = {};         ///< the score that decides
  double score = 0, loss = 0;      ///< of the last round; NaN: not known yet
  double round_seconds = 0;        ///< the last one took
  Traffic traffic = {};            ///< of this process
  std::uint64_t retries = 0;       ///< rounds that had too few replies
  std::vector<RosterEntry> clients = {};
  std::map<std::string, std::string> refusals = {};  ///< why a client does not take part
  std::map<std::string, std::string> doing = {};     ///< client_board.h, by name
};

/// Where operators watch a server and steer it: `chorus status`, `pause` and `stop` through a socket in the fleet's
/// folder, which is private to the server's user, and /metrics (Prometheus) and /healthz on a port, which is not: names
/// of clients and numbers of their examples are told on the socket only. Thread-safe.
class ControlRoom {
 public:
  /// `metrics`: IP:PORT; empty: no port. While the file `pause` exists, the server is paused, also after a restart.
  /// WorldError when another server of the fleet is running.
  ControlRoom(const std::filesystem::path& socket, const std::string& metrics, std::filesystem::path pause);

  /// Changes the status under its lock.
  template <typename Change>
  void update(Change change) {
    const std::lock_guard lock(mutex_);
    change(status_);
  }
  /// Something has happened: a client came or went or replied, a round is done.
  void note_progress() {
    const std::lock_guard lock(mutex_);
    alive_ = std::chrono::steady_clock::now();
  }
  ServerStatus status() const {
    const std::lock_guard lock(mutex_);
    return status_;
  }
  bool paused() const;
  /// How often somebody asked to stop: once ends after the round, twice at once.
  int stops() const { return stops_; }

  /// At the socket.
  HttpResponse answer(const HttpRequest& request);
  /// At the port.
  HttpResponse page(const HttpRequest& request);

 private:
  std::string status_json() const;
  std::string metrics_text() const;

  mutable std::mutex mutex_;
  ServerStatus status_;
  std::chrono::steady_clock::time_point alive_ = std::chrono::steady_clock::now();
  std::filesystem::path pause_;
  std::atomic<int> stops_ = 0;
  std::unique_ptr<HttpServer> commands_, pages_;  // last: their threads use the rest
};

}  // namespace chorus::inline serving
