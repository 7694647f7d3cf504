#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "algorithm/distillation/public_order.h"
#include "algorithm/distillation/teaching.h"
#include "algorithm/federated/collect.h"
#include "core/ports/procedure.h"

namespace chorus::inline distillation {

/// Clients that keep a model of their own between rounds, in their state; the network may be another one than the
/// server's. These procedures are the client half of every method that exchanges predictions for the whole public set.
///
///   distill/predict   trains the model on the client's own data and answers with "predictions", the logits of the
///                     public set, [N K]. With the tensor "model" it begins from that and keeps nothing (FedED).
///       numbers   public_* (PublicOrder), train: epochs are those of the trainer; 0: it only predicts
///                 transfer: first so many epochs over the labels of the public set (FedMD)
///                 probabilities: 1: predictions are softmax(logits)
///   distill/learn     learns from "answers", logits [N K] of a teacher, and keeps the model
///       numbers   public_*, epochs, temperature; train: 1: then trains on its own data (FedMD's revisit)
///       texts     lesson
///   distill/evaluate  scores the model on the client's own test examples, or with shared = 1 on everybody's
///
/// A reply has the numbers examples, batches (a forward pass counts a third), steps, loss and seconds.

/// Its name in the client's state.
inline constexpr const char* kOwnModel = "distill.model";

/// [C, P]: each client's model, or the network as it begins for one that has none yet.
at::Tensor own_models(Workbench& bench);
/// Puts row i of these values [C, P] into client i's state.
void keep_models(Workbench& bench, const at::Tensor& values);

/// A method whose clients keep such models.
class OwnModelAlgorithm : public Algorithm {
 public:
  Request ask_own_models(const at::Tensor& model, std::uint64_t round,
                         std::span<const ClientId> clients) const override;
};

/// A request for distill/predict.
Request predict_request(const RoundInput& input, const PublicOrder& order, bool train);
/// A request for distill/learn with the answers [N, K].
Request learn_request(const RoundInput& input, const Lessons& lessons);

/// The mean of the cohort's predictions by the round's aggregation (weighted mean, robust rule, secure sum).
struct Ensemble {
  RoundResult result;
  at::Tensor mean;  ///< [N, K]; undefined when nobody's predictions could be used
};
struct EnsemblePlan {
  /// Sees, and may change, each client's predictions [N, K] before they are averaged.
  std::function<at::Tensor(const at::Tensor& predictions)> each = {};
};
Ensemble gather(const RoundInput& input, Request request, const EnsemblePlan& plan = {});

/// Adds what one more request of the round cost, after what came before it.
void add_costs(RoundResult& result, const EmulatedTotals& more);

/// Asks the clients whose predictions were used to learn, and adds what they did to the round.
void ask_to_learn(const RoundInput& input, Request request, RoundResult& result);

}  // namespace chorus::inline distillation
