#include "core/base/client_spread.h"

#include <algorithm>
#include <cmath>

namespace chorus::inline base {
namespace {

double mean_of(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

ClientSpread spread_of(const std::string& model, std::vector<double> values, bool higher_is_better) {
  ClientSpread spread{.model = model};
  std::sort(values.begin(), values.end());
  if (!higher_is_better) std::reverse(values.begin(), values.end());  // the worst first
  const std::span<const double> all(values);
  const std::size_t tenth = (values.size() + 9) / 10;
  spread.clients = static_cast<std::int64_t>(values.size());
  spread.mean = mean_of(all);
  double squares = 0, apart = 0;
  for (const double value : values) {
    squares += value * value;
    apart += (value - spread.mean) * (value - spread.mean);
  }
  const auto count = static_cast<double>(values.size());
  spread.deviation = std::sqrt(apart / count);
  spread.jain = squares > 0 ? spread.mean * spread.mean * count / squares : 1;
  spread.worst_tenth = mean_of(all.first(tenth));
  spread.best_tenth = mean_of(all.last(tenth));
  return spread;
}

}  // namespace

std::vector<ClientSpread> spreads_of(std::span<const OwnScore> scores, bool higher_is_better) {
  std::vector<ClientSpread> spreads;
  for (const bool newcomers : {false, true}) {
    for (const std::string model : kComparedModels) {
      std::vector<double> values, gains;
      for (const OwnScore& client : scores) {
        const auto found = client.scores.find(model), global = client.scores.find("global");
        if (client.newcomer != newcomers || found == client.scores.end()) continue;
        values.push_back(found->second);
        if (global == client.scores.end() || model == "global") continue;
        gains.push_back((higher_is_better ? 1 : -1) * (found->second - global->second));
      }
      if (values.empty()) continue;
      ClientSpread spread = spread_of(model, std::move(values), higher_is_better);
      spread.newcomers = newcomers;
      if (!gains.empty()) {
        spread.gain = mean_of(gains);
        const auto better = std::count_if(gains.begin(), gains.end(), [](double gain) { return gain > 0; });
        spread.gaining = static_cast<double>(better) / static_cast<double>(gains.size());
      }
      spreads.push_back(std::move(spread));
    }
  }
  return spreads;
}

}  // namespace chorus::inline base
