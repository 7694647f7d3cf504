#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "algorithm/attacks/attacked_federation.h"
#include "algorithm/federated/rank_sums.h"
#include "apps/experiment/client_networks.h"
#include "apps/experiment/task_model.h"
#include "core/ports/federation.h"
#include "core/ports/link.h"
#include "infrastructure/emulation/emulated_federation.h"

namespace chorus::inline experiment {

/// What is between the two halves of a simulation: nothing, or the in-process transport (`federation.transport:
/// serialised`), the devices' clock and failures where they are emulated, and what attackers change.
///
///     SimulatedLink link({.model = model, .clients = half.clients(), .clock = clock});
///     server.run(link.clients(), rounds, state);
class SimulatedLink {
 public:
  struct Input {
    const TaskModel& model;                        ///< borrowed, as are the clients
    Federation& clients;                           ///< as their half offers them
    std::span<const ClientNetwork> networks = {};  ///< of clients with other networks than `model`; borrowed
    std::function<double()> clock;                 ///< seconds of the emulated clock
    std::function<bool()> stop = {};               ///< true: give up (Ctrl-C)
    Transport* ranks = nullptr;                    ///< where clients are spread over processes; borrowed
    std::size_t others = 0;                        ///< clients of other processes
    bool shared = false;                           ///< every process hosts all clients, and sums what it can
  };
  explicit SimulatedLink(const Input& input);
  SimulatedLink(const SimulatedLink&) = delete;
  SimulatedLink& operator=(const SimulatedLink&) = delete;

  /// As the server reaches them.
  Federation& clients();
  /// About the newest round: attackers, where there are any.
  std::map<std::string, double> numbers() const;

 private:
  Federation& direct_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<LinkedFederation> linked_;
  std::optional<RankSums> sums_;
  std::optional<Fleet> fleet_;
  std::optional<EmulatedFederation> emulated_;
  std::optional<AttackedFederation> attacked_;
};

}  // namespace chorus::inline experiment
