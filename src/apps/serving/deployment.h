#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/experiment/run_experiment.h"
#include "core/config/registry.h"
#include "infrastructure/egress/egress_log.h"

namespace chorus::inline serving {

/// What `chorus serve` is asked to do.
struct ServeRequest {
  std::filesystem::path fleet = "fleet";  ///< its folder
  std::string metrics = {};               ///< IP:PORT for /metrics and /healthz; empty: none
  bool fresh = false;                     ///< begin a new run even if one of this fleet is unfinished
  bool admit = true;                      ///< let invited clients enrol meanwhile
  RunRequest run = {};
};

/// What `chorus join --data` is asked to do.
struct JoinRequest {
  std::filesystem::path identity = "identity";  ///< its folder
  std::vector<std::string> data = {};           ///< training files
  std::vector<std::string> test = {};           ///< of this client's own evaluation
  std::vector<std::string> data_settings = {};  ///< key=value of `data`: how to read the files
  std::filesystem::path policy = {};            ///< a file; empty: everything is allowed
  std::string transport = "grpc";
  std::string device = "cpu";
  bool once = false;                ///< end when a run has ended
  std::function<bool()> stop = {};  ///< true: leave (Ctrl-C)
};

/// A federation of processes. By name, because a build without protobuf or OpenSSL has none.
class Deployment {
 public:
  static constexpr std::string_view kKind = "deployment";
  virtual ~Deployment() = default;
  /// Runs an experiment with the clients that join, from its beginning or from where it was stopped or killed.
  virtual RunReport serve(const ExperimentConfig& config, const ServeRequest& request) = 0;
  /// Takes part in the runs of the server that this machine has joined, until `stop`, or one run with `once`.
  virtual void join(const JoinRequest& request) = 0;
  /// Notes in the identity's log that this enrolment leaves the machine for a server.
  virtual void record_enrolment(const std::filesystem::path& identity, const std::string& server,
                                const std::string& message) = 0;
  /// What has left the machine of a client, verified. DataError when it cannot be read.
  virtual EgressReport egress(const std::filesystem::path& identity) = 0;
};

using Deployments = Registry<Deployment>;

/// The socket in a fleet's folder at which its running server takes commands.
inline std::filesystem::path control_socket(const std::filesystem::path& fleet) { return fleet / "server.sock"; }

}  // namespace chorus::inline serving
