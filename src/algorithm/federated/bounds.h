#pragma once

#include "algorithm/federated/collect.h"

namespace chorus::inline federated {

/// The upper bound: everybody's data in one place, trained on by one optimizer that keeps its state; a round is the
/// trainer's epochs over all of it. What federated learning would reach if nothing had to stay where it is.
class Centralized : public Algorithm {
 public:
  RoundResult round(const RoundInput& input) override;
};

/// The lower bound: every client trains alone on its own data, from the same beginning, and nobody averages. A client's
/// model and optimizer are its state. Scores are those of the clients that are asked, pooled.
class LocalOnly : public Algorithm {
 public:
  RoundResult round(const RoundInput& input) override;
  Request ask_own_models(const at::Tensor& model, std::uint64_t round,
                         std::span<const ClientId> clients) const override;
};

}  // namespace chorus::inline federated
