#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "application/models/activation_cache.h"
#include "apps/experiment/client_half.h"
#include "apps/experiment/own_data.h"
#include "apps/serving/client_states.h"
#include "apps/serving/job.h"
#include "apps/serving/policy.h"
#include "apps/serving/sum_promise.h"
#include "core/ports/fleet.h"
#include "infrastructure/egress/egress_log.h"

namespace chorus::inline serving {

struct HostedClientInput {
  Job job;
  std::filesystem::path folder;                 ///< of the identity: states of runs, files of models
  std::vector<std::string> data, test;          ///< the owner's files
  std::vector<std::string> data_settings = {};  ///< key=value of `data`
  std::string device = "cpu";
  FleetEnd end = {};     ///< who this client is
  const Policy& policy;  ///< borrowed, as is the log
  const EgressLog& egress;
  std::function<bool()> stop = {};
};

/// Where the files of a job are kept on a client's machine: a folder per set of files, named by their digests.
std::filesystem::path job_folder(const std::filesystem::path& identity, const Job& job);

/// A run's name in folders and logs.
std::string hex_of(std::uint64_t run);

/// The one client of a process, with its owner's data, ready for one job. It does what the policy allows and what the
/// job's configuration promises (sum_promise.h), and nothing else: what is forbidden becomes a failed reply that says
/// why.
///
///     HostedClient client({.job = job, ...});                  // reads the data, loads the network
///     ClientService(transport, client).run();
class HostedClient : public Federation {
 public:
  /// The configuration a client uses for a job: the server's, with the client's own files and device.
  static ExperimentConfig config_for(const HostedClientInput& input);

  /// DataError or ConfigError for data or a network that does not fit the job.
  explicit HostedClient(HostedClientInput input);

  const Job& job() const { return input_.job; }
  /// Whether the job promises that the server sees sums only.
  bool sums_only() const { return sums_only_; }
  /// Why a reply of so many bytes may not leave; empty: it may.
  std::string withheld(std::size_t bytes) const;
  /// Of the last request.
  std::uint64_t round() const { return round_; }
  /// Marks of this client's privacy ledgers: what they have when something leaves.
  std::map<std::string, std::string> ledgers() const { return half_->ledgers(); }
  /// The request that comes next, and the one whose reply gave the state it builds on. Numbers as on the wire.
  void expect(std::uint64_t number, std::uint64_t kept);

  const Roster& roster() const override { return half_->clients().roster(); }
  Replies ask(std::span<const ClientId> cohort, Request request) override;
  void end_session(std::uint64_t session) override { half_->clients().end_session(session); }
  Traffic traffic() const override { return half_->clients().traffic(); }
  void wait(double seconds) override { half_->clients().wait(seconds); }

 private:
  std::string refusal(const Request& request) const;
  std::string breach(const Request& request) const;
  Replies prepared(Replies replies, bool witnessed, bool silent);

  HostedClientInput input_;
  ExperimentConfig config_;
  bool sums_only_;
  TaskModel model_;
  Dataset data_;
  std::optional<PublicData> public_;
  ClientStates states_;
  ActivationCache cache_;
  std::unique_ptr<ClientHalf> half_;
  std::uint64_t round_ = 0;
  bool lost_ = false;  // the state that the request builds on
};

}  // namespace chorus::inline serving
