#pragma once

#include <deque>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "algorithm/federated/collect.h"
#include "algorithm/federated/weighted_mean.h"

namespace chorus::inline federated {

struct FedBuffConfig {
  std::int64_t buffer = 10;      ///< K: updates per server step
  std::int64_t concurrency = 0;  ///< M: clients that train at the same time; 0: clients_per_round
  double learning_rate = 1;      ///< eta_g, of the server
  double staleness = 0.5;        ///< exponent a of 1 / (1 + tau)^a; the paper's is 1/2

  void describe(ConfigVisitor& visitor);
};

/// FedBuff (Nguyen et al. 2022, "Federated Learning with Buffered Asynchronous Aggregation", Algorithm 1). M clients
/// train at any moment; a client that finishes is replaced at once by one that starts from the current model. A server
/// step, which is one round here, consumes K updates:
///     w_{t+1} = w_t + eta_g * sum_k p_k s(tau_k) Delta_k / sum_k p_k,      s(tau) = (1 + tau)^-a
/// where tau_k is the number of server steps since client k received its model, and p_k its weight (equal in the
/// paper).
///
/// In a simulation time is emulated: a reply arrives Reply::cost.seconds after its client was asked; one that arrives
/// while the server sums is read after the sum. Without emulated devices replies take no time and arrive in the order
/// of asking. The K - 1 clients that replace others within a round all start from the same model, so they are asked
/// together with the first, in one batched computation; only their start times differ. Replies under way are kept with
/// their updates, so a resumed run gives the same bits.
///
/// With clients of other processes (Federation::real_time) replies arrive when they do, and are added to the sum at
/// once. The server steps as soon as K are there, and those who still train go on; their replies count in a later step.
/// All clients that start from one version are sent the same memory, so slow downloads hold a model per version, not
/// per client; a filter that changes the model on its way makes one per request.
/// When nobody is left to ask, a step takes the updates it has, if they are at least RoundInput::least; with fewer the
/// round is repeated, and no client keeps what it learnt for it. Replies under way are not in a checkpoint: a server
/// that was killed asks anew.
///
/// With a secure sum as aggregation (So et al. 2022, section 4.3, buffer LightSecAgg's masked updates) an update stays
/// in the state of its client until it is one of the K: the client is asked to hold it ("fedbuff/hold"), and the K
/// clients of a step sum what they hold ("fedbuff/release"), each times its s(tau), but at least 1/32, so that no
/// update stands alone in a sum. A client computes its factor from the versions that it was told. The server sees who
/// finished when, and the sum. Models are handed out before there is a sum, so no key depends on them: this holds
/// against a server that follows the protocol, and `server: active` is refused.
///
/// A client that is training is not asked again, and nobody is asked twice for a step, so its updates are of different
/// clients. A round selects clients_per_round candidates: M + K of them always suffice to replace every client that
/// finishes; with fewer, fewer train at a time. A client that fails counts as an arrival without an update. K = M = 1
/// is FedAvg.
class FedBuff : public Algorithm {
 public:
  explicit FedBuff(const FedBuffConfig& config) : config_(config) {}

  RoundResult round(const RoundInput& input) override;
  std::map<std::string, at::Tensor> state() const override;
  void restore(const std::map<std::string, at::Tensor>& state) override;

 private:
  /// A reply under way.
  struct Flight {
    double client = 0, version = 0, order = 0;  // order: index of the request over the whole run
    double arrival = 0;                         // time on the clock; before the client starts, its duration
    double weight = 0, examples = 0, steps = 0, loss = 0, seconds = 0;
    Cost cost = {};
    double left_out = 0, held = 0;  // held: the update is in its client's state
    std::string failure = {};
    at::Tensor update = {};
    std::function<void()> accept = {};  ///< tells its client that the reply counts
  };
  static std::vector<double> numbers_of(const Flight& flight);
  static Flight flight_of(const double* numbers);
  static bool later(const Flight& a, const Flight& b);

  /// A server step that is being made: the sum of the updates that have arrived, and what is reported of them.
  struct Step {
    Step(std::size_t most, double clock) : mean(most), now(clock) {}
    WeightedMean mean;  // slots in order of arrival
    double now;         // time on the clock
    std::size_t updates = 0;
    double weights = 0, discounted = 0, staleness = 0;  // sums
    std::vector<Member> holders = {};                   // clients that hold their updates
    std::vector<Cost> costs = {};
    RoundResult result = {};
  };

  /// Clients that train now and have not replied, on a real clock.
  struct Open {
    std::vector<ClientId> clients;  // by slot
    double version = 0;
    std::size_t left = 0;
    Replies replies;
  };

  bool holds(const RoundInput& input) const;
  Request request_for(const RoundInput& input, at::Tensor model) const;
  at::Tensor shared_model(const RoundInput& input);
  std::vector<ClientId> candidates(const RoundInput& input, std::size_t wanted) const;
  static Flight read(Reply& reply, const RoundInput& input, bool hold);
  std::deque<Flight> ask(const RoundInput& input, std::size_t wanted);
  void take(Step& step, const RoundInput& input, Flight flight) const;
  Step emulated_step(const RoundInput& input);
  void ask_now(const RoundInput& input, std::span<const ClientId> clients);
  Flight next_arrival(const RoundInput& input);
  Step real_step(const RoundInput& input);
  RoundResult sum_held(const RoundInput& input, const std::vector<Member>& holders) const;

  FedBuffConfig config_;
  double clock_ = 0;             // at the last server step
  double version_ = 0;           // server steps so far
  double asked_ = 0;             // clients asked so far
  std::vector<Flight> flights_;  // a heap, the next arrival on top
  std::list<Open> open_;         // on a real clock
  at::Tensor sent_;              // on a real clock: the model of this version, once somebody was asked
};

}  // namespace chorus::inline federated
