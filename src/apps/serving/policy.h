#pragma once

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/experiment/experiment_config.h"
#include "apps/serving/sum_promise.h"
#include "core/config/config_visitor.h"
#include "core/ports/message.h"

namespace chorus::inline serving {

/// One use that a client agrees to.
struct PolicyUse {
  std::string task = {};                     ///< a task's name; empty: any
  std::vector<std::string> files = {};       ///< files, or folders of files, that may be used for it; empty: any
  std::vector<std::string> procedures = {};  ///< what a server may ask for with these files; empty: any

  void describe(ConfigVisitor& visitor);
};

/// What the owner of a client's data agrees to: a file of kind `policy`, on the client's machine. The client refuses
/// everything else and tells the server why in one sentence.
///
///     kind: policy
///     allow:
///       - {task: text_classification, files: [/data/notes], procedures: [train, evaluate]}
///     secure_aggregation: 9
///     active_server: true
///     hours: 20:00-06:00
struct Policy {
  std::vector<PolicyUse> allow = {};  ///< empty: everything
  std::int64_t secure_aggregation =
      0;                       ///< others whose updates must be summed with this client's before anybody sees them
  bool active_server = false;  ///< these sums must hold against a server that lies
  std::optional<double> epsilon = {};  ///< the largest that a run may spend; a run without one is refused
  std::string hours = {};              ///< HH:MM-HH:MM of this machine's clock; empty: always
  std::int64_t threads = 0;            ///< for training; 0: one
  double megabytes_per_day = 0;        ///< that may leave this machine, by UTC; 0: any number

  void describe(ConfigVisitor& visitor);
};

/// Each answers with why not, as one sentence for the server; empty: yes.
///
/// A job: the task on these files, with the protections that its configuration promises.
std::string refusal_of_job(const Policy& policy, const ExperimentConfig& job, const std::vector<std::string>& files);
/// A request at this moment, when so many bytes have left today. `task`: of the job.
struct PolicyMoment {
  std::string task;
  std::string procedure;
  std::time_t now = 0;
  std::uint64_t bytes_today = 0;
  std::uint64_t bytes_next = 0;         ///< a reply of usual size
  std::vector<std::string> files = {};  ///< that the procedure reads
  std::optional<StatedSum> sum = {};    ///< that it begins
};
std::string refusal_of_request(const Policy& policy, const PolicyMoment& moment);
/// So many more bytes on a day on which so many have left.
std::string refusal_of_bytes(const Policy& policy, std::uint64_t today, std::uint64_t next);

/// For logs: "the server sees sums of updates: secagg_plus (active server)".
std::string what_the_server_sees(const ExperimentConfig& job);

}  // namespace chorus::inline serving
