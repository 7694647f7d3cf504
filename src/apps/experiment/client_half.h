#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "algorithm/compression/filter_end.h"
#include "algorithm/local_budget/local_charges.h"
#include "application/trainer/client_pool.h"
#include "apps/experiment/client_networks.h"
#include "apps/experiment/task_model.h"
#include "core/ports/label_guard.h"
#include "infrastructure/federation/local_federation.h"

namespace chorus::inline experiment {

/// The examples of the clients that one process hosts: all of a simulation, or one client with data of its own.
struct ClientExamples {
  const Dataset& data;  ///< borrowed
  std::shared_ptr<const EncodedDataset> train, test = {};
  ClientLists train_lists = {}, test_lists = {};  ///< by client
  std::vector<ClientId> ids = {};                 ///< of these clients, rising; empty: 0, 1, 2, ...
  std::vector<std::string> names = {};            ///< of these clients, for people; empty: none
  std::vector<std::uint32_t> shared_test = {};    ///< simulation only: the server's test examples
  PublicSet public_set = {};                      ///< what everybody knows; for distillation
};

struct ClientHalfInput {
  const TaskModel& model;  ///< borrowed
  ClientExamples examples;
  std::uint64_t rounds = 1;           ///< of the whole run, for schedules
  StateShelf states = {};             ///< where client states are kept between rounds; empty: they are not
  ActivationCache* cache = nullptr;   ///< borrowed
  std::function<bool()> stop = {};    ///< true: give up (Ctrl-C)
  std::filesystem::path folder = {};  ///< for the ledgers of trainer.privacy, of labels and of local noise
  std::map<std::string, std::string> ledgers = {};  ///< ClientHalf::ledgers, in a run that goes on
  /// Networks other than `model`, and which each client has: an index in `networks`, -1 for `model`. Empty: all have
  /// `model`. Borrowed.
  std::span<const ClientNetwork> networks = {};
  std::span<const int> network_of = {};
};

/// The clients' half of a federation: their examples, local training, procedures, states and their end of the filters.
/// It knows nothing of algorithm, selection or test set of the server. A server of the same process asks `clients()`
/// directly; one of another process through a ClientService.
///
///     ClientHalf half({.model = model, .examples = own_examples(model, data, id)});
///     ClientService(transport, half.clients()).run();
class ClientHalf {
 public:
  explicit ClientHalf(ClientHalfInput input);
  ClientHalf(const ClientHalf&) = delete;
  ClientHalf& operator=(const ClientHalf&) = delete;

  Federation& clients() { return charges_ ? static_cast<Federation&>(*charges_) : local_; }
  /// Of trainer.privacy; null without it.
  const ExampleGuard* guard() const { return guard_.get(); }
  /// Of trainer.label_epsilon; null without it.
  const LabelGuard* labels() const { return labels_.get(); }
  /// Of filters with local noise; null without them.
  const LocalCharges* local_charges() const { return charges_ ? &*charges_ : nullptr; }
  /// Marks of the privacy ledgers, by file. Whoever lets a reply out keeps them, so that a lost ledger is noticed.
  std::map<std::string, std::string> ledgers() const;
  /// A workbench for one client, for what never leaves this process.
  std::unique_ptr<Workbench> open(ClientId client, std::uint64_t round) const {
    return pool_of(client).open({&client, 1}, round);
  }

 private:
  ClientPoolInput pool_input(const ClientNetwork* network) const;
  const ClientPool& pool_of(ClientId client) const;
  LocalFederationInput federation_input();

  std::unique_ptr<ExampleGuard> make_guard() const;
  std::unique_ptr<LabelGuard> hide_labels();

  ClientHalfInput input_;
  std::unique_ptr<LabelGuard> labels_;
  std::unique_ptr<ExampleGuard> guard_;
  std::vector<std::unique_ptr<ClientPool>> pools_;  // of `model`, then of each network
  FilterEnd gate_;
  LocalFederation local_;  // made last: it fills the pools
  std::optional<LocalCharges> charges_;
};

}  // namespace chorus::inline experiment
