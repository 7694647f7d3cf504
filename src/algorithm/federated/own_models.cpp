#include "algorithm/federated/own_models.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"

namespace chorus::inline federated {

std::vector<Answer> OwnModels::run(const Request& request, Workbench& bench) const {
  const auto on = request.body.number("shared", 0) != 0 ? Workbench::TestOn::kShared : Workbench::TestOn::kOwn;
  std::vector<Answer> answers;
  for (Message& message : bench.evaluate(models(request, bench), on)) answers.push_back({std::move(message), ""});
  return answers;
}

bool KeptRows::all() const { return std::find(kept.begin(), kept.end(), false) == kept.end(); }

KeptRows kept_rows(Workbench& bench, const std::string& name, const at::Tensor& fallback) {
  const auto clients = static_cast<std::int64_t>(bench.clients().size());
  KeptRows rows{(fallback.dim() == 1 ? fallback.unsqueeze(0).expand({clients, -1}) : fallback).clone(), {}};
  for (std::int64_t i = 0; i < clients; ++i) {
    const auto index = static_cast<std::size_t>(i);
    const ClientState& state = bench.state(index);
    const auto found = state.find(name);
    rows.kept.push_back(found != state.end());
    if (found == state.end()) continue;
    if (found->second.dim() != 1 || found->second.size(0) != rows.values.size(1)) {
      throw DataError(fmt::format("client {}: its \"{}\" has {} elements instead of {}; it is of another network",
                                  bench.clients()[index], name, found->second.numel(), rows.values.size(1)));
    }
    rows.values[i].copy_(found->second);
  }
  return rows;
}

at::Tensor kept_or(const KeptRows& rows, const at::Tensor& others) {
  const at::Tensor result = others.clone();
  for (std::size_t i = 0; i < rows.kept.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    if (rows.kept[i]) result[row].copy_(rows.values[row]);
  }
  return result;
}

}  // namespace chorus::inline federated
