#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "infrastructure/http/http_server.h"
#include "infrastructure/tracking/report/run_view.h"

namespace chorus::inline dashboard {

struct DashboardOptions {
  std::filesystem::path folder = "runs";  ///< runs in it and up to three levels below
  std::uint16_t port = 8765;              ///< 0: any free one
  std::string version{};                  ///< of Chorus
  std::string token{};                    ///< who has it may stop and pause runs; empty: a new random one
  double seconds = 1;                     ///< between looks at the folder
};

/// The page of all runs of a folder, kept up to date in the browser by server-sent events.
///
/// | request | answer |
/// |---|---|
/// | GET / | the page with what is known now |
/// | GET /events | `run` events: a run that changed; `gone` events: one that was removed |
/// | POST /control {"run": ID, "action": "stop", "pause" or "continue"} with the token in X-Chorus-Token | a sentence |
///
/// `stop` sends the run the signal of Ctrl-C, so that it ends after its round and can be resumed. `pause` and
/// `continue` stop and continue the process of a simulation; a server (`chorus serve`) waits before its next round
/// while its run folder has a file `pause`, and keeps its clients.
///
///     Dashboard dashboard({.folder = "runs"});
///     fmt::print("{}\n", dashboard.address());
class Dashboard {
 public:
  explicit Dashboard(DashboardOptions options);
  Dashboard(const Dashboard&) = delete;
  Dashboard& operator=(const Dashboard&) = delete;
  ~Dashboard();

  /// With the token behind #, which a browser does not send to any server.
  std::string address() const;

 private:
  struct Shown {
    std::unique_ptr<RunView> view;
    std::uint64_t change = 0;  ///< number of its last change
    std::string json;          ///< as of that
  };

  void watch();
  bool look();
  HttpResponse handle(const HttpRequest& request);
  HttpResponse page();
  HttpResponse control(const HttpRequest& request);
  void stream(const HttpSend& send);

  DashboardOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Shown> runs_;          // by id; guarded by mutex_, like all below
  std::map<std::string, std::uint64_t> gone_;  // id -> number of the change
  std::uint64_t change_ = 0;
  bool ending_ = false;
  std::thread watcher_;
  std::unique_ptr<HttpServer> server_;
};

/// Asks the process of a run to stop, pause or continue; says in a sentence what happened. ConfigError when there is
/// no such action, DataError when no process works on the run.
std::string control_run(const std::filesystem::path& folder, const std::string& action);

/// 128 random bits, hexadecimal.
std::string random_token();

}  // namespace chorus::inline dashboard
