#pragma once

#include <deque>
#include <vector>

#include "algorithm/federated/collect.h"

namespace chorus::inline federated {

struct FedBuffConfig {
  std::int64_t buffer = 10;      ///< K: updates that make a server step
  std::int64_t concurrency = 0;  ///< M: clients at work at a time; 0: as many as a round selects
  double learning_rate = 1;      ///< eta_g of the server
  double staleness = 0.5;        ///< exponent a of 1 / (1 + tau)^a; the paper's is 1/2

  void describe(ConfigVisitor& visitor);
};

/// FedBuff (Nguyen et al. 2022, "Federated Learning with Buffered Asynchronous Aggregation", Algorithm 1). M clients
/// are at work at any moment; whoever is done is replaced at once, by a client that starts from the model as it is
/// then. A server step, which is a round here, is made of K updates:
///     w_{t+1} = w_t + eta_g * sum_k p_k s(tau_k) Delta_k / sum_k p_k,      s(tau) = (1 + tau)^-a
/// where tau_k is the number of server steps since client k was sent its model, and p_k its weight (equal in the
/// paper).
///
/// Time is the emulated one: an answer arrives Reply::cost.seconds after its client was asked (without emulated devices
/// all take no time and arrive in the order they were asked). The K - 1 clients that replace others within a round all
/// start from the same model, so they are asked together, with the first, in one batched computation; only their
/// starting times differ. What has not arrived yet is remembered, updates included, so a resumed run gives the same
/// bits.
///
/// A client that is at work is not asked again. A round selects clients_per_round candidates: with M + K of them there
/// is always somebody to replace whoever is done; with fewer, fewer are at work. A client that fails counts as an
/// arrival without an update. With K = M = 1 it is FedAvg.
class FedBuff : public Algorithm {
 public:
  explicit FedBuff(const FedBuffConfig& config) : config_(config) {}

  RoundResult round(const RoundInput& input) override;
  std::map<std::string, at::Tensor> state() const override;
  void restore(const std::map<std::string, at::Tensor>& state) override;

 private:
  /// An answer on its way.
  struct Flight {
    double client = 0, version = 0, order = 0;  // order: of being asked, over the whole run
    double arrival = 0;                         // on the clock; until it has started, how long it takes
    double weight = 0, examples = 0, steps = 0, loss = 0, seconds = 0;
    Cost cost = {};
    double left_out = 0;
    std::string failure = {};
    at::Tensor update = {};
  };
  static std::vector<double> numbers_of(const Flight& flight);
  static Flight flight_of(const double* numbers);
  static bool later(const Flight& a, const Flight& b);

  std::deque<Flight> ask(const RoundInput& input, std::size_t wanted);
  void step(const RoundInput& input, const std::vector<Flight>& arrived) const;

  FedBuffConfig config_;
  double clock_ = 0;             // of the last server step
  double version_ = 0;           // server steps so far
  double asked_ = 0;             // clients so far
  std::vector<Flight> flights_;  // a heap, the next to arrive on top
};

}  // namespace chorus::inline federated
