#include "algorithm/federated/fednova.h"

#include <ATen/ATen.h>

#include <map>

namespace chorus::inline federated {

RoundResult FedNova::round(const RoundInput& input) {
  std::map<ClientId, std::pair<double, double>> reaches;  // weight, |a|; sorted by client
  const auto normalize = [&](Reply& reply, double weight) {
    const double reach = reply.body.number("reach");
    if (!(reach >= 1e-6 && reach <= 1e15)) throw DataError("its reach should be between 1e-6 and 1e15");
    reply.body.tensors["update"] = reply.body.tensor("update").div(reach);
    reaches[reply.client] = {weight, reach};
  };
  Collected collected = collect(input, request_with_model(input, "train"), {.look = normalize});
  double total = 0, reach = 0;
  for (const auto& entry : reaches) {
    total += entry.second.first;
    reach += entry.second.first * entry.second.second;
  }
  if (collected.means[0].defined()) input.model.add_(collected.means[0], reach / total);
  collected.result.numbers["effective_steps"] = total > 0 ? reach / total : 0;
  return std::move(collected.result);
}

namespace {

const Registration<Algorithms> kRegisteredFedNova{"fednova",
                                                  "updates normalized by their steps (Wang et al. 2020)",
                                                  [] { return std::make_unique<FedNova>(); },
                                                  {.individual_updates = true}};

}  // namespace
}  // namespace chorus::inline federated
