#include "infrastructure/tracking/spread_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/console/text_table.h"

namespace chorus::inline tracking {

std::string spread_text(std::span<const ClientSpread> spreads, std::span<const std::string> runs) {
  constexpr TextTable::Align kRight = TextTable::Align::kRight;
  std::vector<TextTable::Column> columns;
  if (!runs.empty()) columns.push_back({"run"});
  for (const char* title : {"model", "clients"}) columns.push_back({title});
  for (const char* title :
       {"number", "mean", "deviation", "worst tenth", "best tenth", "fairness", "gain", "clients that gain"}) {
    columns.push_back({title, kRight});
  }
  TextTable table(std::move(columns));
  for (std::size_t i = 0; i < spreads.size(); ++i) {
    const ClientSpread& spread = spreads[i];
    std::vector<std::string> cells;
    if (!runs.empty()) cells.push_back(runs[i]);
    cells.push_back(spread.model);
    cells.emplace_back(spread.newcomers ? "newcomers" : "trained");
    cells.push_back(std::to_string(spread.clients));
    for (const double value : {spread.mean, spread.deviation, spread.worst_tenth, spread.best_tenth, spread.jain}) {
      cells.push_back(fmt::format("{:.4f}", value));
    }
    cells.push_back(spread.gain ? fmt::format("{:+.4f}", *spread.gain) : "");
    cells.push_back(spread.gaining ? fmt::format("{:.0f} %", 100 * *spread.gaining) : "");
    table.add(std::move(cells));
  }
  return table.render();
}

std::string own_scores_json(std::span<const OwnScore> scores, const std::string& metric, bool higher_is_better) {
  using Json = nlohmann::ordered_json;
  Json json = {{"format", 1}, {"metric", metric}, {"higher_is_better", higher_is_better}, {"clients", Json::array()}};
  for (const OwnScore& score : scores) {
    Json row = {{"client", score.client}, {"newcomer", score.newcomer}, {"examples", score.examples}};
    row["scores"] = Json::object();
    for (const auto& [model, value] : score.scores) row["scores"][model] = value;
    json["clients"].push_back(std::move(row));
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace chorus::inline tracking
