#include "algorithm/federated/fedopt.h"

#include <ATen/ATen.h>

namespace chorus::inline federated {

void FedOptConfig::describe(ConfigVisitor& visitor) {
  visitor.field(
      "server", server,
      {{"sgd", Server::kSgd}, {"adagrad", Server::kAdagrad}, {"adam", Server::kAdam}, {"yogi", Server::kYogi}},
      "the server's optimizer");
  visitor.field("learning_rate", learning_rate, "of the server").above(0);
  visitor.field("momentum", momentum, "of sgd").at_least(0).below(1);
  visitor.field("beta1", beta1, "of adagrad, adam and yogi").at_least(0).below(1);
  visitor.field("beta2", beta2, "of adam and yogi").at_least(0).below(1);
  visitor.field("tau", tau, "of adagrad, adam and yogi: the degree of adaptivity").above(0);
}

RoundResult FedOpt::round(const RoundInput& input) {
  Collected collected = collect(input, request_with_model(input, "train"));
  if (collected.means[0].defined()) step(input.model, collected.means[0]);
  return std::move(collected.result);
}

void FedOpt::step(const at::Tensor& model, const at::Tensor& update) {
  if (!first_.defined()) first_ = at::zeros_like(model);
  if (config_.server == FedOptConfig::Server::kSgd) {
    first_.mul_(config_.momentum).add_(update);
    model.add_(first_, config_.learning_rate);
    return;
  }
  if (!second_.defined()) second_ = at::full_like(model, config_.tau * config_.tau);
  first_.mul_(config_.beta1).add_(update, 1 - config_.beta1);
  switch (config_.server) {
    case FedOptConfig::Server::kAdagrad:
      second_.addcmul_(update, update);
      break;
    case FedOptConfig::Server::kAdam:
      second_.mul_(config_.beta2).addcmul_(update, update, 1 - config_.beta2);
      break;
    default: {
      const at::Tensor square = update.square();
      second_.addcmul_(square, (second_ - square).sign_(), -(1 - config_.beta2));
    }
  }
  model.addcdiv_(first_, second_.sqrt().add_(config_.tau), config_.learning_rate);
}

std::map<std::string, at::Tensor> FedOpt::state() const {
  std::map<std::string, at::Tensor> result;
  if (first_.defined()) result["first"] = first_;
  if (second_.defined()) result["second"] = second_;
  return result;
}

void FedOpt::restore(const std::map<std::string, at::Tensor>& state) {
  if (const auto found = state.find("first"); found != state.end()) first_ = found->second.clone();
  if (const auto found = state.find("second"); found != state.end()) second_ = found->second.clone();
}

namespace {

const Registration<Algorithms, FedOptConfig> kRegisteredFedOpt{
    "fedopt",
    "a server optimizer over the mean update: momentum, Adagrad, Adam, Yogi (Reddi et al. 2021)",
    [](const FedOptConfig& config) { return std::make_unique<FedOpt>(config); },
    {.one_sum = true, .stateless = true}};

}  // namespace
}  // namespace chorus::inline federated
