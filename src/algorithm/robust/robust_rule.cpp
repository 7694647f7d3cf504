#include "algorithm/robust/robust_rule.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <map>

#include "algorithm/federated/read_updates.h"

namespace chorus::inline robust {

Aggregated RobustRule::aggregate(AggregationInput input) {
  std::vector<std::map<std::size_t, at::Tensor>> by_slot(input.tensors.size());
  UpdateReader reader;
  reader.use = [&](std::size_t slot, const std::vector<double>&, const std::vector<at::Tensor>& tensors) {
    for (std::size_t i = 0; i < tensors.size(); ++i) by_slot[i][slot] = tensors[i];
  };
  reader.skip = [](std::size_t) {};
  reader.least = least_updates();
  Aggregated result;
  result.clients = read_updates(input, reader);
  std::size_t usable = 0;
  for (const ClientReport& report : result.clients) usable += report.failure.empty() ? 1 : 0;
  if (usable > 0 && usable < least_updates()) {
    for (ClientReport& report : result.clients) {
      if (!report.failure.empty()) continue;
      report = {
          .failure = fmt::format("{} updates could be used, but the aggregation needs {}", usable, least_updates()),
          .cost = report.cost};
    }
    usable = 0;
  }
  for (std::size_t i = 0; i < input.tensors.size(); ++i) {
    std::vector<at::Tensor> rows;
    for (auto& entry : by_slot[i]) rows.push_back(std::move(entry.second));
    if (usable > 0 && mixing_.attackers > 0) rows = mix_nearest(rows, static_cast<std::size_t>(mixing_.attackers));
    result.means.push_back(usable > 0 ? combine(rows, input.tensors[i].name) : at::Tensor());
  }
  return result;
}

}  // namespace chorus::inline robust
