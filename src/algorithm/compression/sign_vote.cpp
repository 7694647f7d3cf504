#include "algorithm/compression/sign_vote.h"

#include <ATen/ATen.h>

namespace chorus::inline compression {

void SignVoteConfig::describe(ConfigVisitor& visitor) {
  visitor.field("learning_rate", learning_rate, "step size of every parameter per round").above(0);
}

RoundResult SignVote::round(const RoundInput& input) {
  CollectPlan plan;
  plan.look = [](Reply& reply, double) { reply.body.tensors["update"] = reply.body.tensor("update").sign(); };
  Collected collected = collect(input, request_with_model(input, "train"), plan);
  if (collected.means[0].defined()) input.model.add_(collected.means[0].sign_(), config_.learning_rate);
  return std::move(collected.result);
}

namespace {

const Registration<Algorithms, SignVoteConfig> kRegisteredSignVote{
    "signsgd",
    "clients vote on the direction of every parameter (Bernstein et al. 2018)",
    [](const SignVoteConfig& config) { return std::make_unique<SignVote>(config); },
    {.individual_updates = true}};

}  // namespace
}  // namespace chorus::inline compression
