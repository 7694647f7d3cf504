#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "algorithm/distillation/public_order.h"
#include "algorithm/distillation/teaching.h"
#include "algorithm/federated/collect.h"
#include "core/ports/algorithm.h"
#include "core/ports/procedure.h"

namespace chorus::inline distillation {

/// Clients that keep their own model between rounds, in their state; its network may differ from the server's. These
/// procedures are the client half of every method that exchanges predictions for the whole public set.
///
///   distill/predict   trains the model on the client's own data and replies with "predictions", the logits of the
///                     public set, [N K]. With the tensor "model" it starts from that and keeps nothing (FedED).
///       numbers   public_* (PublicOrder)
///                 transfer: first this many epochs over the labels of the public set (FedMD)
///                 once: 1: only clients without a model of their own yet train, the others just predict (FedMD)
///       texts     answers: what it sends of the logits (Sent); missing: the logits
///   distill/learn     learns from "answers", logits [N K] of a teacher, and keeps the model
///       numbers   public_*, epochs, temperature, rate, text_loss; train: 1: then trains on its own data (FedMD's
///                 revisit)
///       texts     lesson
///   distill/evaluate  scores the model on the client's own test examples, or with shared = 1 on the shared ones
///
/// The replies to the first two have the numbers steps, seconds, kLoad and kLoadTexts. That of distill/predict also has
/// examples, batches (of its own data, in the last training of the model that predicts) and, if the client has just
/// trained, its loss. That of distill/learn has nothing else, because no noise protects it
/// (local_budget/local_charges.h).

/// The work for the emulated clock: batches of the client's own data, and texts of the public set, whose batches have a
/// size of their own. A forward pass counts a third.
inline constexpr const char* kLoad = "load";
inline constexpr const char* kLoadTexts = "load_texts";

/// What a client sends of its logits. A regression score is always sent as it is.
///
///     logits, probabilities (softmax), or votes: one-hot rows of the most probable class, so that the mean over
///     clients counts votes (PATE, Papernot et al. 2017), and a client's tensor has the norm sqrt(N)
enum class Sent { kLogits, kProbabilities, kVotes };
std::string name_of(Sent sent);
at::Tensor to_send(const at::Tensor& logits, Sent sent);

/// Its name in the client's state.
inline constexpr const char* kOwnModel = "distill.model";

/// [C, P]: each client's model, or the initial network for a client without one.
at::Tensor own_models(Workbench& bench);
/// Stores row i of these values [C, P] in client i's state.
void keep_models(Workbench& bench, const at::Tensor& values);

/// Traits of methods whose clients keep such models: those that need only the mean of the predictions, and those that
/// look at each client's and at the server's query set.
inline constexpr AlgorithmTraits kAveragesPredictions{.own_models = true,
                                                      .distills = true,
                                                      .predictions_up = true,
                                                      .predictions_down = true,
                                                      .any_network = true,
                                                      .one_sum = true};
inline constexpr AlgorithmTraits kLooksAtPredictions{.individual_updates = true,
                                                     .own_mean = true,
                                                     .own_models = true,
                                                     .distills = true,
                                                     .predictions_up = true,
                                                     .predictions_down = true,
                                                     .any_network = true};

/// A method whose clients keep such models.
class OwnModelAlgorithm : public Algorithm {
 public:
  Request ask_own_models(const at::Tensor& model, std::uint64_t round,
                         std::span<const ClientId> clients) const override;
};

/// The number "text_loss" of a request. DataError outside [0, 1].
double text_loss_in(const Message& body);

/// A request for distill/predict, with training.
Request predict_request(const RoundInput& input, const PublicOrder& order);
/// A request for distill/learn with the answers [N, K].
Request learn_request(const RoundInput& input, const Lessons& lessons);

/// The mean of the cohort's predictions by the round's aggregation (weighted mean, robust rule, secure sum).
struct Ensemble {
  RoundResult result;
  at::Tensor mean;  ///< [N, K]; undefined when no predictions could be used
};
struct EnsemblePlan {
  /// Sees each usable reply and its weight. Only for algorithms that declare individual_updates.
  std::function<void(const Reply& reply, double weight)> look = {};
};
Ensemble gather(const RoundInput& input, Request request, const EnsemblePlan& plan = {});

/// note_traffic for predictions of the whole public set, before they come back to the clients (`back`) or do not.
void note_predictions(const RoundInput& input, Ensemble& ensemble, bool back);

/// Adds the cost of one more request of the round, which follows the earlier ones.
void add_costs(RoundResult& result, const EmulatedTotals& more);

/// Asks the clients whose predictions were used to learn, and adds their work to the round.
void ask_to_learn(const RoundInput& input, Request request, RoundResult& result);

}  // namespace chorus::inline distillation
