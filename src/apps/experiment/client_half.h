#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "algorithm/compression/filter_end.h"
#include "application/trainer/client_pool.h"
#include "apps/experiment/task_model.h"
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
};

struct ClientHalfInput {
  const TaskModel& model;  ///< borrowed
  ClientExamples examples;
  std::uint64_t rounds = 1;          ///< of the whole run, for schedules
  StateShelf states = {};            ///< where client states are kept between rounds; empty: they are not
  ActivationCache* cache = nullptr;  ///< borrowed
  std::function<bool()> stop = {};   ///< true: give up (Ctrl-C)
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

  Federation& clients() { return local_; }

 private:
  ClientPoolInput pool_input() const;
  LocalFederationInput federation_input() const;

  ClientHalfInput input_;
  ClientPool pool_;
  FilterEnd gate_;
  LocalFederation local_;
};

}  // namespace chorus::inline experiment
