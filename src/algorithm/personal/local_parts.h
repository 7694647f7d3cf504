#pragma once

#include <optional>
#include <string>

#include "algorithm/federated/collect.h"
#include "algorithm/personal/private_part.h"

namespace chorus::inline personal {

/// FedPer (Arivazhagan et al. 2019): the head is private.
struct FedPerConfig : PartConfig {
  FedPerConfig() : PartConfig{{"head"}, {}} {}
};
/// LG-FedAvg (Liang et al. 2020): the lower layers are private, the upper ones shared.
struct LgFedAvgConfig : PartConfig {
  LgFedAvgConfig() : PartConfig{{"embeddings"}, {}} {}
};
/// The idea of FedBN (Li et al. 2021) for transformers: the norms are private.
struct FedBnConfig : PartConfig {
  FedBnConfig() : PartConfig{{"norms"}, {}} {}
};

/// Local parts: the parameters are split into shared ones s and private ones p_k. A client trains both together from
/// (s_t, p_k), keeps its p_k, and sends only its s_k; the server computes
///     s_{t+1} = s_t + sum_k p_k (s_k - s_t)
/// with the round's weights. Only shared elements travel, in both directions. p_k starts as in the run's network.
/// Registered as fedper, lg_fedavg and fedbn, which differ in what is private by default, and local_parts, which has no
/// default (private: [attached] keeps adapters, private: ["*lora_B*"] shares A alone, ...).
///
/// A client's own model is (s_t, p_k). A newcomer trains its p_k with s_t frozen, for one round of local training. The
/// private parts of the global model are never trained, so scores are those of the own models.
class LocalParts : public Algorithm {
 public:
  explicit LocalParts(const PartConfig& config) : config_(config) {}
  void prepare(const Layout& layout) override { part_.emplace(config_, layout); }
  RoundResult round(const RoundInput& input) override { return round_of(input, "local_parts/train"); }
  Request ask_own_models(const at::Tensor& model, std::uint64_t round,
                         std::span<const ClientId> clients) const override;

 protected:
  RoundResult round_of(const RoundInput& input, std::string procedure) const;
  virtual void describe_to(Request& request) const { write_parts(config_, request.body); }
  const PrivatePart& part() const;

 private:
  PartConfig config_;
  std::optional<PrivatePart> part_;
};

/// The client's side: the shared elements of the request's "model" [S] joined with each client's private ones, [C, P].
struct JoinedStart {
  PrivatePart part;
  at::Tensor values;       ///< [C, P]
  std::vector<bool> kept;  ///< which clients have trained private elements
};
JoinedStart joined_start(const Request& request, Workbench& bench);
/// Keeps the private elements of the trained values and replies with the update of the shared ones.
std::vector<Answer> keep_private(const JoinedStart& start, const TrainResult& result, Workbench& bench);

}  // namespace chorus::inline personal
