#include "algorithm/personal/clusters.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "algorithm/federated/own_models.h"
#include "algorithm/federated/weighted_mean.h"
#include "algorithm/personal/training.h"
#include "core/base/error.h"

namespace chorus::inline personal {
namespace {

constexpr std::int64_t kMostClusters = 4096;

struct Chosen {
  at::Tensor models;                   // [C, P]
  std::vector<std::int64_t> clusters;  // of each client
  std::vector<std::string> failures;
  double passes = 0;  // over the data, for the choice
};

// The model assigned to each client, or else the one with the lowest loss.
Chosen choose(const Request& request, Workbench& bench) {
  const std::int64_t size = bench.parameters();
  const at::Device device = bench.beginning().device();
  const std::size_t clients = bench.clients().size();
  Chosen chosen{at::empty({static_cast<std::int64_t>(clients), size}, bench.beginning().options()),
                std::vector<std::int64_t>(clients, -1), std::vector<std::string>(clients), 0};
  bool all_told = true;
  for (std::size_t i = 0; i < clients; ++i) {
    const Message& own = request.own_of(i);
    if (!own.has_tensor("model")) {
      all_told = false;
      continue;
    }
    const double cluster = own.number("cluster");
    if (!(cluster >= 0 && cluster < static_cast<double>(kMostClusters))) throw DataError("there is no such cluster");
    chosen.clusters[i] = static_cast<std::int64_t>(cluster);
    chosen.models[static_cast<std::int64_t>(i)].copy_(own.vector("model", size));
  }
  if (all_told) return chosen;
  const at::Tensor& models = request.body.tensor("models");
  if (models.dim() != 2 || models.size(1) != size || models.scalar_type() != at::kFloat || models.size(0) < 1 ||
      models.size(0) > kMostClusters) {
    throw DataError("the clusters' models are not of this network");
  }
  std::vector<double> lowest(clients, HUGE_VAL);
  std::vector<std::int64_t> best(clients, 0);
  for (std::int64_t k = 0; k < models.size(0); ++k) {
    const GradientResult result = bench.gradient(models[k].to(device), false);
    for (std::size_t i = 0; i < clients; ++i) {
      if (chosen.failures[i].empty()) chosen.failures[i] = result.failures[i];
      if (!(result.loss[i] < lowest[i])) continue;
      lowest[i] = result.loss[i];
      best[i] = k;
    }
  }
  chosen.passes = static_cast<double>(models.size(0)) / 3;  // a forward pass is about a third of a training step
  for (std::size_t i = 0; i < clients; ++i) {
    if (chosen.clusters[i] >= 0) continue;
    chosen.clusters[i] = best[i];
    chosen.models[static_cast<std::int64_t>(i)].copy_(models[best[i]]);
  }
  return chosen;
}

class ClustersTrain : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override {
    const Chosen chosen = choose(request, bench);
    TrainResult result = bench.train(chosen.models, {});
    for (std::size_t i = 0; i < chosen.failures.size(); ++i) {
      if (result.failures[i].empty()) result.failures[i] = chosen.failures[i];
    }
    std::vector<Answer> answers = answers_of(result, result.values - chosen.models, bench);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      answers[i].body.numbers["cluster"] = static_cast<double>(chosen.clusters[i]);
      answers[i].body.numbers["batches"] *= 1 + chosen.passes;
    }
    return answers;
  }
};

class ClustersEvaluate : public OwnModels {
 public:
  at::Tensor models(const Request& request, Workbench& bench) const override { return choose(request, bench).models; }
};

const ProcedureRegistration<ClustersTrain> kClustersTrain{"clusters/train", "train the model of the client's cluster"};
const ProcedureRegistration<ClustersEvaluate> kClustersEvaluate{"clusters/evaluate",
                                                                "score the model of the client's cluster"};

}  // namespace

void ClusterModels::begin(const at::Tensor& model, std::int64_t clusters) {
  models_ = model.unsqueeze(0).expand({clusters, -1}).clone();
  copies_.clear();
}

void ClusterModels::restore(const at::Tensor& models) {
  if (models.dim() != 2 || models.scalar_type() != at::kFloat || models.size(0) < 1) {
    throw DataError("the checkpoint does not hold the models of clusters");
  }
  models_ = models.clone();
  copies_.clear();
}

Message ClusterModels::told(std::int64_t cluster) const {
  Message own;
  at::Tensor& copy = copies_[cluster];
  if (!copy.defined()) copy = models_[cluster].clone();
  own.tensors["model"] = copy;
  own.numbers["cluster"] = static_cast<double>(cluster);
  return own;
}

ClusterModels::Outcome ClusterModels::train(const RoundInput& input, Request request) {
  const std::int64_t clusters = count(), size = models_.size(1);
  request.procedure = "clusters/train";
  request.round = input.round;
  request.enough = input.enough;
  const bool choosing = request.own.empty() || std::any_of(request.own.begin(), request.own.end(),
                                                           [](const Message& m) { return !m.has_tensor("model"); });
  if (choosing) request.body.tensors["models"] = models_.clone();
  std::vector<WeightedMean> means(static_cast<std::size_t>(clusters), WeightedMean(input.cohort.size()));
  Outcome outcome;
  CollectPlan plan;
  plan.tensors = {};
  plan.look = [&](Reply& reply, double weight) {
    const double cluster = reply.body.number("cluster");
    if (!(cluster >= 0 && cluster < static_cast<double>(clusters))) throw DataError("it names no cluster of the run");
    const at::Tensor update = reply.body.vector("update", size).to(models_.device());
    if (!at::isfinite(update).all().item<bool>()) throw DataError("its update has values that are not finite");
    const auto k = static_cast<std::size_t>(cluster);
    means[k].add(reply.slot, weight, update);
    outcome.choices.push_back({reply.client, static_cast<std::int64_t>(k)});
  };
  outcome.result = collect(input, std::move(request), plan).result;
  std::sort(outcome.choices.begin(), outcome.choices.end(),
            [](const Choice& a, const Choice& b) { return a.client < b.client; });
  copies_.clear();
  double total = 0;
  for (std::int64_t k = 0; k < clusters; ++k) {
    const auto clients = std::count_if(outcome.choices.begin(), outcome.choices.end(),
                                       [&](const Choice& choice) { return choice.cluster == k; });
    outcome.result.numbers[fmt::format("cluster_{}", k)] = static_cast<double>(clients);
    if (const at::Tensor mean = means[static_cast<std::size_t>(k)].result(); mean.defined()) models_[k].add_(mean);
    total += means[static_cast<std::size_t>(k)].weight();
  }
  if (total <= 0) return outcome;
  const at::Tensor middle = at::zeros_like(input.model);
  for (std::int64_t k = 0; k < clusters; ++k) {
    middle.add_(models_[k], means[static_cast<std::size_t>(k)].weight() / total);
  }
  input.model.copy_(middle);
  return outcome;
}

Request ClusterModels::ask(std::uint64_t round, std::span<const ClientId> clients,
                           const std::map<ClientId, std::int64_t>& known) const {
  Request request{.procedure = "clusters/evaluate", .round = round};
  bool choosing = false;
  for (const ClientId client : clients) {
    const auto found = known.find(client);
    choosing = choosing || found == known.end();
    request.own.push_back(found == known.end() ? Message{} : told(found->second));
  }
  if (choosing) request.body.tensors["models"] = models_.clone();
  return request;
}

}  // namespace chorus::inline personal
