#pragma once

#include <cstdint>
#include <memory>

#include "application/trainer/client_pool.h"
#include "apps/experiment/task_model.h"

namespace chorus::inline experiment {

/// What the server itself has to train on and to measure with.
struct ServerPublic {
  const Dataset& query_data;  ///< borrowed
  PublicSet queries;          ///< labelled
  PublicSet set;              ///< the same as its clients'
};

/// The server's own workbench for federated distillation (RoundInput::server): its model learns from predictions on the
/// public set, and its labelled query set takes the place of a client's own data.
///
///     ServerDesk desk(model, shared, rounds);
///     const std::unique_ptr<Workbench> bench = desk.open(round);
class ServerDesk {
 public:
  /// Borrows the model.
  ServerDesk(const TaskModel& model, const ServerPublic& shared, std::uint64_t rounds);
  ServerDesk(const ServerDesk&) = delete;
  ServerDesk& operator=(const ServerDesk&) = delete;

  std::unique_ptr<Workbench> open(std::uint64_t round) const;

 private:
  ClientLists lists_;
  ClientPool pool_;
};

}  // namespace chorus::inline experiment
