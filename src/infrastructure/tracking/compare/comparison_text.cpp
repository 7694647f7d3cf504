#include <fmt/format.h>

#include <array>
#include <cmath>
#include <set>

#include "core/console/text_table.h"
#include "infrastructure/tracking/compare/comparison.h"
#include "infrastructure/tracking/spread_text.h"

namespace chorus::inline compare {
namespace {

constexpr TextTable::Align kRight = TextTable::Align::kRight;

std::string score(double value) {
  const double size = std::abs(value);
  if (size >= 1000 || (size < 0.001 && size > 0)) return fmt::format("{:.4g}", value);
  return fmt::format("{:.{}f}", value, size >= 100 ? 1 : size >= 10 ? 2 : 4);
}

/// 1234567 as 1.2 M.
std::string amount(double value, const char* unit) {
  constexpr std::array<const char*, 5> kPrefixes = {"", "k", "M", "G", "T"};
  std::size_t prefix = 0;
  double scaled = value;
  while (scaled >= 9999.5 && prefix + 1 < kPrefixes.size()) {
    scaled /= 1000;
    ++prefix;
  }
  const std::string sign = std::string(kPrefixes[prefix]) + unit;
  const bool whole = prefix == 0 || scaled >= 100;
  return fmt::format("{:.{}f}{}{}", scaled, whole ? 0 : 1, sign.empty() ? "" : " ", sign);
}

std::string duration(double seconds) {
  if (seconds < 99.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::min(seconds + 0.5, 1e15));
  if (whole < 3600) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  return fmt::format("{}:{:02} h", whole / 3600, whole / 60 % 60);
}

std::string percent(std::optional<double> change) { return change ? fmt::format("{:+.1f} %", 100 * *change) : "-"; }

std::string main_table(const Comparison& comparison) {
  std::vector<TextTable::Column> columns = {
      {"run"},         {"algorithm"}, {"rounds", kRight}, {"best " + comparison.metric, kRight}, {"at round", kRight},
      {"last", kRight}};
  if (comparison.baseline) columns.push_back({"best, change", kRight});
  if (comparison.target) columns.push_back({"to " + score(*comparison.target), kRight});
  for (const char* title : {"examples", "bytes", "time"}) columns.push_back({title, kRight});
  bool emulated = false;
  for (const ComparedRun& compared : comparison.runs) emulated = emulated || compared.run.emulated_seconds.has_value();
  if (emulated) columns.push_back({"emulated", kRight});
  TextTable table(std::move(columns));
  for (const ComparedRun& compared : comparison.runs) {
    const RunRecord& run = compared.run;
    std::vector<std::string> cells = {run.label,
                                      run.algorithm,
                                      std::to_string(run.rounds),
                                      compared.best ? score(*compared.best) : "-",
                                      compared.best ? std::to_string(compared.best_round) : "-",
                                      compared.last ? score(*compared.last) : "-"};
    if (comparison.baseline) {
      const ComparedRun& base = comparison.runs[*comparison.baseline];
      const bool is_base = &base == &compared;
      const bool both = compared.best && base.best;
      cells.push_back(is_base ? "baseline" : both ? percent(change_against(*compared.best, *base.best)) : "-");
    }
    if (comparison.target) {
      std::string cell = "not reached";
      if (compared.rounds_to_target) cell = fmt::format("{} rounds", *compared.rounds_to_target);
      if (compared.emulated_to_target) cell += ", " + duration(*compared.emulated_to_target);
      cells.push_back(std::move(cell));
    }
    cells.push_back(amount(run.examples, ""));
    cells.push_back(amount(run.bytes, "B"));
    cells.push_back(duration(run.seconds));
    if (emulated) cells.push_back(run.emulated_seconds ? duration(*run.emulated_seconds) : "-");
    table.add(std::move(cells));
  }
  return table.render();
}

std::string notes(const Comparison& comparison) {
  std::string text;
  for (const ComparedRun& compared : comparison.runs) {
    const RunRecord& run = compared.run;
    if (run.summary && run.summary->status != "interrupted") continue;
    const std::string of = run.planned_rounds > 0 ? fmt::format(" of {}", run.planned_rounds) : "";
    text +=
        fmt::format("{} is not finished (round {}{}): these are its results so far. 'chorus resume {}' continues it.\n",
                    run.label, run.rounds, of, run.folder.string());
  }
  return text;
}

/// The last scores of all runs relative to the baseline.
std::string change_table(const Comparison& comparison) {
  const RunRecord& base = comparison.runs[*comparison.baseline].run;
  if (base.points.empty()) return "";
  std::vector<TextTable::Column> columns = {{"last score"}, {base.label, kRight}};
  for (const ComparedRun& compared : comparison.runs) {
    if (&compared.run != &base) columns.push_back({compared.run.label, kRight});
  }
  TextTable table(std::move(columns));
  for (const auto& [name, value] : base.points.back().scores) {
    std::vector<std::string> cells = {name, score(value)};
    for (const ComparedRun& compared : comparison.runs) {
      if (&compared.run == &base) continue;
      if (compared.run.points.empty() || !compared.run.points.back().scores.contains(name)) {
        cells.emplace_back("-");
      } else {
        cells.push_back(percent(change_against(compared.run.points.back().scores.at(name), value)));
      }
    }
    table.add(std::move(cells));
  }
  return fmt::format("\nChange against {}\n{}", base.label, table.render());
}

const DecileSummary* decile_of(const RunRecord& run, const std::string& name) {
  if (!run.summary) return nullptr;
  for (const DecileSummary& decile : run.summary->deciles) {
    if (decile.name == name) return &decile;
  }
  return nullptr;
}

/// The baseline's last score on the whole test set.
std::optional<double> whole_baseline(const Comparison& comparison) {
  if (!comparison.baseline) return std::nullopt;
  const RunRecord& base = comparison.runs[*comparison.baseline].run;
  if (base.points.empty() || !base.points.back().scores.contains(comparison.metric)) return std::nullopt;
  return base.points.back().scores.at(comparison.metric);
}

/// The metric by decile of the devices; with a baseline, relative to that run's score on the whole test set (the RCP of
/// Dupuy et al. 2022).
std::string decile_table(const Comparison& comparison) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  std::vector<TextTable::Column> columns = {{"decile"}, {"clients", kRight}};
  for (const ComparedRun& compared : comparison.runs) {
    columns.push_back({compared.run.label, kRight});
    if (!compared.run.summary) continue;
    for (const DecileSummary& decile : compared.run.summary->deciles) {
      if (seen.insert(decile.name).second) names.push_back(decile.name);
    }
  }
  if (names.empty()) return "";
  const std::optional<double> base = whole_baseline(comparison);
  TextTable table(std::move(columns));
  for (const std::string& name : names) {
    std::vector<std::string> cells = {name, "-"};
    for (const ComparedRun& compared : comparison.runs) {
      const DecileSummary* decile = decile_of(compared.run, name);
      if (decile == nullptr || !decile->scores.contains(comparison.metric)) {
        cells.emplace_back("-");
        continue;
      }
      if (cells[1] == "-") cells[1] = std::to_string(decile->clients);
      const double value = decile->scores.at(comparison.metric);
      cells.push_back(base ? percent(change_against(value, *base)) : score(value));
    }
    table.add(std::move(cells));
  }
  const std::string against = base ? fmt::format(", as its change against {} on the whole test set ({})",
                                                 comparison.runs[*comparison.baseline].run.label, score(*base))
                                   : "";
  return fmt::format("\n{} by decile of the devices{}\n{}", comparison.metric, against, table.render());
}

/// What each run gave its clients, on their own test examples.
std::string spread_table(const Comparison& comparison) {
  std::vector<ClientSpread> spreads;
  std::vector<std::string> labels;
  for (const ComparedRun& compared : comparison.runs) {
    if (!compared.run.summary || compared.run.metric != comparison.metric) continue;
    for (const ClientSpread& spread : compared.run.summary->spreads) {
      spreads.push_back(spread);
      labels.push_back(compared.run.label);
    }
  }
  if (spreads.empty()) return "";
  return fmt::format("\n{} on clients' own test examples\n{}", comparison.metric, spread_text(spreads, labels));
}

}  // namespace

std::string to_text(const Comparison& comparison, const PlotOptions& plot) {
  std::string text = main_table(comparison) + notes(comparison);
  PlotOptions labelled = plot;
  labelled.x_label = comparison.x;
  labelled.y_label = comparison.metric;
  text += "\n" + terminal_plot(curves_of(comparison), labelled);
  if (comparison.baseline && comparison.runs.size() > 1) text += change_table(comparison);
  return text + decile_table(comparison) + spread_table(comparison);
}

}  // namespace chorus::inline compare
