#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "application/metrics/score.h"
#include "core/console/text_table.h"

namespace chorus::inline metrics {
namespace {

using nlohmann::json;

// The main scores, and the columns of the breakdown tables.
std::vector<std::string> headline(ScoreTask task) {
  switch (task) {
    case ScoreTask::kClassification:
      return {"accuracy", "macro_f1", "matthews"};
    case ScoreTask::kRegression:
      return {"pearson", "spearman"};
    case ScoreTask::kTagging:
      return {"precision", "recall", "f1"};
    case ScoreTask::kQuestionAnswering:
      return {"exact_match", "f1"};
    case ScoreTask::kGeneration:
      return {"rouge1", "rouge2", "rougeL", "rougeLsum"};
    case ScoreTask::kLanguageModel:
      return {"perplexity", "loss", "tokens"};
  }
  return {};
}

std::string shown(double value) {
  if (std::isnan(value)) return "undefined";
  if (value == std::floor(value) && std::abs(value) >= 2) return fmt::format("{:.0f}", value);
  return std::abs(value) >= 1000 ? fmt::format("{:.6g}", value) : fmt::format("{:.4f}", value);
}

std::string shown(const std::map<std::string, Interval>& intervals, const std::string& name) {
  const auto found = intervals.find(name);
  if (found == intervals.end()) return "";
  return fmt::format("{} to {}", shown(found->second.low), shown(found->second.high));
}

std::string interval_title(const ScoreReport& report) {
  return report.confidence > 0 ? fmt::format("{:g} % interval", 100 * report.confidence) : "";
}

std::string score_table(const ScoreReport& report) {
  TextTable table({{"score"}, {"value", TextTable::Align::kRight}, {interval_title(report)}});
  std::vector<std::string> order = headline(report.task);
  for (const auto& [name, value] : report.all.scores)
    if (name.find('/') == name.npos && std::find(order.begin(), order.end(), name) == order.end())
      order.push_back(name);
  for (const std::string& name : order)
    table.add(
        {name,
         name == "examples" ? fmt::format("{:.0f}", report.all.scores.at(name)) : shown(report.all.scores.at(name)),
         name == "examples" ? "" : shown(report.all.intervals, name)});
  return table.render();
}

std::string class_table(const ScoreReport& report) {
  using enum TextTable::Align;
  TextTable table({{report.task == ScoreTask::kTagging ? "type" : "class"},
                   {"precision", kRight},
                   {"recall", kRight},
                   {"f1", kRight},
                   {"support", kRight},
                   {report.confidence > 0 ? fmt::format("f1, {}", interval_title(report)) : ""}});
  constexpr std::string_view kPrefix = "support/";
  for (const auto& [name, support] : report.all.scores) {
    if (!name.starts_with(kPrefix)) continue;
    const std::string which = name.substr(kPrefix.size() - 1);
    const auto value = [&](const char* score) { return fmt::format("{:.4f}", report.all.scores.at(score + which)); };
    table.add({which.substr(1), value("precision"), value("recall"), value("f1"), fmt::format("{:.0f}", support),
               shown(report.all.intervals, "f1" + which)});
  }
  return table.rows() > 0 ? fmt::format("\n{}", table.render()) : "";
}

std::string group_table(const ScoreReport& report, const std::string& title, const std::vector<GroupScores>& groups) {
  if (groups.empty()) return "";
  using enum TextTable::Align;
  const std::vector<std::string> names = headline(report.task);
  const bool many = std::any_of(groups.begin(), groups.end(), [](const GroupScores& g) { return g.clients > 1; });
  std::vector<TextTable::Column> columns{{title}};
  if (many) columns.push_back({"clients", kRight});
  columns.push_back({"examples", kRight});
  for (const std::string& name : names) columns.push_back({name, kRight});
  if (report.confidence > 0) columns.push_back({names.front() + ", " + interval_title(report)});
  TextTable table(columns);
  for (const GroupScores& group : groups) {
    std::vector<std::string> cells{group.name};
    if (many) cells.push_back(std::to_string(group.clients));
    cells.push_back(fmt::format("{:.0f}", group.scores.at("examples")));
    for (const std::string& name : names) cells.push_back(shown(group.scores.at(name)));
    if (report.confidence > 0) cells.push_back(shown(group.intervals, names.front()));
    table.add(cells);
  }
  return fmt::format("\n{}", table.render());
}

json to_value(const GroupScores& group) {
  json value{{"scores", group.scores}};
  if (group.clients > 0) value["clients"] = group.clients;
  for (const auto& [name, interval] : group.intervals) value["intervals"][name] = {interval.low, interval.high};
  return value;
}

json to_value(const std::vector<GroupScores>& groups) {
  json list = json::array();
  for (const GroupScores& group : groups) {
    list.push_back(to_value(group));
    list.back()["name"] = group.name;
  }
  return list;
}

}  // namespace

std::string to_text(const ScoreReport& report) {
  return score_table(report) + class_table(report) + group_table(report, "group", report.by_group) +
         group_table(report, "decile of activity", report.by_decile) + group_table(report, "client", report.by_client);
}

std::string to_json(const ScoreReport& report) {
  json root = to_value(report.all);
  root["task"] = name_of(report.task);
  if (report.confidence > 0) root["confidence"] = report.confidence;
  if (!report.by_client.empty()) root["by_client"] = to_value(report.by_client);
  if (!report.by_decile.empty()) root["by_decile"] = to_value(report.by_decile);
  if (!report.by_group.empty()) root["by_group"] = to_value(report.by_group);
  return root.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace chorus::inline metrics
