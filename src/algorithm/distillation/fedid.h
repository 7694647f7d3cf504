#pragma once

#include <optional>
#include <string>

#include "algorithm/distillation/own_models.h"

namespace chorus::inline distillation {

/// How the server's loss on the query set reaches the clients.
///
///   difference  delta = L_old - L_new, the server's loss on a query batch before and after its step, as in the
///               published code (a finite difference, as in Meta Pseudo Labels, Pham et al. 2021)
///   gradient    the derivative of L_new with respect to the ensemble, by equation 14
///   none        without feedback (ablation)
///
/// For a task with scores instead of classes there is no feedback by difference: a client's own score is where its loss
/// is smallest, so there is nothing to reinforce.
enum class Feedback { kDifference, kGradient, kNone };
inline constexpr const char* kNoDifferenceOfScores =
    "algorithm.feedback: by difference it reinforces a client's own labels, and this task has scores, to which a "
    "client "
    "cannot be drawn any nearer; set it to gradient (preset: as_written) or none";

struct FedIdConfig {
  TeachingConfig teaching = {};
  /// as_published: hard labels, a new optimizer per batch, dropout during predictions and feedback, feedback by
  /// difference. as_written: soft labels, one optimizer per round, no dropout, feedback by gradient. The settings below
  /// override it.
  std::string preset = "as_published";
  std::optional<std::string> labels = {};     ///< hard or soft
  std::optional<std::string> feedback = {};   ///< difference, gradient or none
  std::optional<bool> new_optimizer = {};     ///< per batch, on both sides
  std::optional<bool> feedback_dropout = {};  ///< while clients predict and the server measures
  bool distillation = true;                   ///< clients learn the ensemble; false: feedback only (ablation)

  void describe(ConfigVisitor& visitor);

  bool published() const { return preset == "as_published"; }
  Lesson lesson() const {
    return labels.value_or(published() ? "hard" : "soft") == "hard" ? Lesson::kHard : Lesson::kSoft;
  }
  Feedback how_feedback() const;
  bool renews() const { return new_optimizer.value_or(published()); }
  bool dropout() const { return feedback_dropout.value_or(published()); }
};

/// FedID (Ma et al. 2023), interactive distillation. In every round, after each client has trained its own model on its
/// own data, server and clients exchange predictions batch by batch. For each batch x of the public set and a batch of
/// the server's labelled query set:
///
///     client k:  z_k = f_k(x)                                                                              (9)
///     server:    one step on sum_k w_k CE(argmax z_k, f(x))        hard;  (11) with the ensemble
///                one step on CE(y, f(x)),  y = sum_k w_k softmax(z_k)   soft                           (10, 11)
///                L_old, L_new: its loss on the query batch before and after the step                      (12)
///     client k:  one step on
///         hard:  CE(argmax zbar, f_k(x)) + w_k delta CE(argmax z_k, f_k(x)),  zbar = sum_k w_k z_k     (13, 15)
///         soft:  CE(y, f_k(x)) + feedback                                                              (13, 15)
///
/// Feedback by difference is w_k delta CE(own label, f_k(x)): if the step on the clients' labels has improved the
/// server (delta > 0), a client's own label is reinforced. delta = 0 leaves plain distillation.
///
/// Feedback by gradient follows equation 14. With theta' = theta - eta g the server's step, CE is linear in y, so
///     dL_new / dy_ic = (eta / n) v . grad_theta log softmax(f(x_i))_c,   v = grad L_new(theta'),
/// the derivative of the server's log-probabilities in the direction v. The server computes it with two forward passes,
/// (log p(theta + e v) - log p(theta - e v)) / 2e, and sends s = dL_new / dy [n, K] beside y; client k adds
/// w_k sum_ic s_ic softmax(f_k(x_i))_c to its loss, whose gradient is equation 14. eta is the server's learning rate.
/// For scores, y = sum_k w_k f_k(x), s_i = (2 eta / n) v . grad f(x_i), and the client adds w_k sum_i s_i f_k(x_i).
/// Equation 14 is for a server that steps with SGD; after a step of AdamW, which scales every parameter by its own
/// factor, it has the direction of SGD's.
///
/// A client that sends predictions of a wrong shape, or values that are not finite, leaves the round. Traffic is |D_0|
/// (K + 1) predictions per epoch and round if the broadcast counts once (table 5 counts one epoch), plus |D_0| for
/// feedback by gradient, which table 5 does not know.
class FedId : public OwnModelAlgorithm {
 public:
  explicit FedId(const FedIdConfig& config) : config_(config) {}
  RoundResult round(const RoundInput& input) override;
  bool queries() const override { return config_.how_feedback() != Feedback::kNone; }

 private:
  FedIdConfig config_;
};

}  // namespace chorus::inline distillation
