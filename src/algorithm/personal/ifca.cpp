#include "algorithm/personal/ifca.h"

#include <ATen/ATen.h>

#include "core/base/rng.h"

namespace chorus::inline personal {
namespace {

constexpr const char* kIfcaModels = "models";

const Registration<Algorithms, IfcaConfig> kRegisteredIfca{
    "ifca",
    "clusters of clients: each takes the model with the lowest loss (Ghosh et al. 2020)",
    [](const IfcaConfig& config) { return std::make_unique<Ifca>(config); },
    {.individual_updates = true, .own_mean = true, .own_models = true, .partial = true}};

}  // namespace

void IfcaConfig::describe(ConfigVisitor& visitor) {
  visitor.field("clusters", clusters, "models that the server keeps (K)").at_least(1).at_most(4096);
  visitor.field("warm_up", warm_up, "first rounds, in which clients are assigned to clusters at random").at_least(1);
}

RoundResult Ifca::round(const RoundInput& input) {
  if (!clusters_.defined()) clusters_.begin(input.model, config_.clusters);
  Request request;
  if (input.round <= static_cast<std::uint64_t>(config_.warm_up)) {
    for (const Member& member : asking_order(input)) {
      RandomStream stream({.seed = input.seed, .purpose = "ifca", .round = input.round, .client = member.client});
      request.own.push_back(
          clusters_.told(static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(config_.clusters)))));
    }
  }
  return clusters_.train(input, std::move(request)).result;
}

Request Ifca::ask_own_models(const at::Tensor& model, std::uint64_t round, std::span<const ClientId> clients) const {
  if (clusters_.defined()) return clusters_.ask(round, clients, {});
  ClusterModels first;
  first.begin(model, 1);
  return first.ask(round, clients, {});
}

std::map<std::string, at::Tensor> Ifca::state() const {
  return clusters_.defined() ? std::map<std::string, at::Tensor>{{kIfcaModels, clusters_.models()}}
                             : std::map<std::string, at::Tensor>{};
}

void Ifca::restore(const std::map<std::string, at::Tensor>& state) {
  if (const auto found = state.find(kIfcaModels); found != state.end()) clusters_.restore(found->second);
}

}  // namespace chorus::inline personal
