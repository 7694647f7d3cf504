#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "algorithm/secure/sum_party.h"
#include "core/ports/aggregation.h"

namespace chorus::inline secure_mean {

/// Carries the messages of one secure sum between its host and the clients of a session. Everything that goes wrong
/// with a client fails that client; the host decides whether the others are enough.
///
///     SumRounds rounds(input, host);
///     std::optional<std::string> abandoned = rounds.run(first_request);
///     std::vector<ClientReport> reports = rounds.take_reports();
class SumRounds {
 public:
  /// `alive(client, step)`: whether a simulated client still replies to ask number `step`. All are borrowed.
  using Alive = std::function<bool(ClientId, std::size_t)>;
  SumRounds(const AggregationInput& input, SumHost& host, Alive alive);

  /// From the first ask to the sum. Before the clients are told that their replies are used, `check_sum` looks at the
  /// sum; it returns what is wrong with it, or "". Nothing: it is done. Else why it was abandoned.
  std::optional<std::string> run(Request first, const std::function<std::string()>& check_sum);

  /// One per member of the cohort. Those in the sum have no failure, also when they vanished after their input.
  std::vector<ClientReport> take_reports(const std::optional<std::string>& abandoned);

 private:
  struct Ask {
    std::vector<std::size_t> slots;
    Request request;
  };
  Ask next_ask(const SumHost::Outgoing& out, std::size_t step) const;
  void deliver(Reply& reply, std::size_t slot);
  void charge(const std::vector<std::size_t>& slots, const std::vector<Cost>& costs);

  const AggregationInput& input_;
  SumHost& host_;
  Alive alive_;
  std::uint64_t round_ = 0;
  std::vector<ClientReport> reports_;
  std::vector<std::function<void()>> on_accept_;  // of each slot's newest reply
};

}  // namespace chorus::inline secure_mean
