#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/console/text_table.h"
#include "infrastructure/tracking/sweep/sweep.h"

namespace chorus::inline sweep {
namespace {

using Json = nlohmann::ordered_json;

std::string number_text(const MeanDeviation& value) {
  if (value.count == 0) return "-";
  const std::string mean = fmt::format("{:.4g}", value.mean);
  return value.count == 1 ? mean : fmt::format("{:.4f} ± {:.4f}", value.mean, value.deviation);
}

Json to_json(const MeanDeviation& value) {
  if (value.count == 0 || !std::isfinite(value.mean)) return nullptr;
  return {{"count", value.count}, {"mean", value.mean}, {"deviation", value.deviation}};
}

}  // namespace

MeanDeviation mean_deviation(const std::vector<double>& values) {
  MeanDeviation result{.count = values.size()};
  if (values.empty()) return result;
  for (const double value : values) result.mean += value / static_cast<double>(values.size());
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  if (values.size() > 1) result.deviation = std::sqrt(squares / static_cast<double>(values.size() - 1));
  return result;
}

std::string to_text(const Sweep& sweep) {
  std::vector<TextTable::Column> columns;
  if (!sweep.points.empty()) {
    for (const auto& [key, value] : sweep.points.front()) columns.push_back({key});
  }
  const std::string metric = sweep.metric.empty() ? "score" : sweep.metric;
  columns.push_back({"best " + metric, TextTable::Align::kRight});
  columns.push_back({"last", TextTable::Align::kRight});
  columns.push_back({"runs", TextTable::Align::kRight});
  TextTable table(std::move(columns));
  for (const std::size_t point : sweep.order) {
    std::vector<std::string> cells;
    for (const auto& [key, value] : sweep.points[point]) cells.push_back(value);
    const auto planned =
        std::count_if(sweep.runs.begin(), sweep.runs.end(), [&](const SweepRun& run) { return run.point == point; });
    const auto done = std::count_if(sweep.runs.begin(), sweep.runs.end(),
                                    [&](const SweepRun& run) { return run.point == point && run.summary.has_value(); });
    cells.push_back(number_text(sweep.best[point]));
    cells.push_back(number_text(sweep.last[point]));
    cells.push_back(done == planned ? std::to_string(done) : fmt::format("{} of {}", done, planned));
    table.add(std::move(cells));
  }
  std::string text = table.render();
  for (const SweepRun& run : sweep.runs) {
    if (run.failure.empty()) continue;
    text += fmt::format("failed: {} seed={}: {} (see {})\n", point_name(sweep.points[run.point]), run.seed, run.failure,
                        run.log.string());
  }
  return text;
}

std::string to_json(const Sweep& sweep) {
  Json json = {{"format", 1},
               {"metric", sweep.metric},
               {"higher_is_better", sweep.higher_is_better},
               {"points", Json::array()},
               {"runs", Json::array()}};
  for (const std::size_t point : sweep.order) {
    Json values = Json::object();
    for (const auto& [key, value] : sweep.points[point]) values[key] = value;
    json["points"].push_back(
        {{"values", values}, {"best", to_json(sweep.best[point])}, {"last", to_json(sweep.last[point])}});
  }
  for (const SweepRun& run : sweep.runs) {
    Json values = Json::object();
    for (const auto& [key, value] : sweep.points[run.point]) values[key] = value;
    const char* status = run.summary ? "finished" : run.failure.empty() ? "missing" : "failed";
    Json item = {
        {"folder", run.folder.filename().string()}, {"values", values}, {"seed", run.seed}, {"status", status}};
    if (!run.failure.empty()) item["failure"] = run.failure;
    if (run.summary) {
      for (const auto& [name, scores] : {std::pair{"best", &run.summary->best}, {"last", &run.summary->last}}) {
        const auto found = scores->find(sweep.metric);
        item[name] = nullptr;
        if (found != scores->end() && std::isfinite(found->second)) item[name] = found->second;
      }
    }
    json["runs"].push_back(std::move(item));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace chorus::inline sweep
