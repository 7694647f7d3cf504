#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/files/files.h"
#include "infrastructure/tracking/report/page.h"
#include "infrastructure/tracking/report/run_view.h"

namespace chorus::inline report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMostConfig = 1 << 20, kMostCard = 1 << 16, kMostClients = 64 << 20, kMostLedger = 64 << 20;
constexpr std::size_t kMostCharges = 1000;
constexpr std::size_t kPlainRows = 200;  // shorter columns are lists that people can read

/// Six significant digits: what a page can show, in a third of the bytes.
Json number(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (value == std::trunc(value) && std::abs(value) < 1e15) return static_cast<std::int64_t>(value);
  return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
}

Json number(const std::optional<double>& value) { return value ? number(*value) : Json(nullptr); }

/// A long column as the bytes of its 32-bit floating-point numbers (little endian) in base 64: a fifth of the time to
/// read, and decoded when it is drawn. One that never changes is its value and how often.
Json packed(const std::vector<double>& values, const std::vector<std::size_t>& rows) {
  const double first = values[rows.front()];
  const auto same = [&](std::size_t row) {
    return values[row] == first || (std::isnan(values[row]) && std::isnan(first));
  };
  if (std::all_of(rows.begin(), rows.end(), same)) return {{"same", number(first)}, {"count", rows.size()}};
  std::string bytes;
  bytes.reserve(rows.size() * sizeof(float));
  for (const std::size_t row : rows) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(values[row]));
    for (unsigned shift = 0; shift < 32; shift += 8) bytes += static_cast<char>((bits >> shift) & 0xFFU);
  }
  return base64(bytes);
}

Json columns_json(const Columns& columns, const std::string& main, std::size_t points) {
  const std::vector<std::size_t> rows = columns.thinned(main, points);
  Json json = Json::object();
  for (const auto& [name, values] : columns.values()) {
    Json& column = json[name];
    if (rows.size() > kPlainRows) {
      column = packed(values, rows);
      continue;
    }
    column = Json::array();
    for (const std::size_t row : rows) column.push_back(number(values[row]));
  }
  return json;
}

/// Empty when the file is missing or too long.
std::string text_of_file(const fs::path& path, std::uint64_t most) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return "";
  try {
    return read_file(path, most);
  } catch (const Error&) {
    return "";
  }
}

Json scores_of(const Event& event) {
  Json clients = Json::object();
  for (const auto& [name, value] : event.numbers) {
    if (name.starts_with("client/")) clients[name.substr(7)] = number(value);
  }
  return {{"round", event.round}, {"clients", std::move(clients)}};
}

Json milestone(const std::optional<Milestone>& reached) {
  if (!reached) return nullptr;
  return {{"round", reached->round},
          {"seconds", number(reached->seconds)},
          {"bytes", number(reached->bytes)},
          {"emulated_seconds", number(reached->emulated.seconds)},
          {"client_joules", number(reached->emulated.client_joules)}};
}

Json privacy_of(const std::optional<RunSummary>& summary, const std::optional<Event>& last) {
  if (summary && summary->privacy) {
    const PrivacyReport& privacy = *summary->privacy;
    return {{"epsilon", number(privacy.epsilon)}, {"delta", number(privacy.delta)},
            {"noise", number(privacy.noise)},     {"sampling_rate", number(privacy.sampling_rate)},
            {"charges", privacy.charges},         {"statement", privacy.statement}};
  }
  if (!last) return nullptr;
  Json json = Json::object();
  for (const char* name : {"epsilon", "delta"}) {
    if (last->numbers.contains(name)) json[name] = number(last->numbers.at(name));
  }
  return json;
}

/// The charges of privacy.ledger; equal ones that follow each other are one with their steps added.
Json ledger_of(const fs::path& folder) {
  Json charges = Json::array();
  const std::string text = text_of_file(folder / "privacy.ledger", kMostLedger);
  for (std::size_t begin = 0; begin < text.size() && charges.size() < kMostCharges;) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const Json line = Json::parse(text.substr(begin, end - begin), nullptr, false);
    begin = end + 1;
    if (!line.is_object() || !line.contains("mechanism")) continue;
    Json charge = Json::object();
    for (const char* name : {"what", "mechanism", "noise", "sampling_rate", "steps"}) {
      if (line.contains(name)) charge[name] = line[name];
    }
    if (!charge.contains("steps") || !charge["steps"].is_number_integer()) charge["steps"] = 1;
    if (!charges.empty()) {
      Json last = charges.back();
      last["steps"] = charge["steps"];
      if (last == charge) {
        charges.back()["steps"] = charges.back()["steps"].get<std::int64_t>() + charge["steps"].get<std::int64_t>();
        continue;
      }
    }
    charges.push_back(std::move(charge));
  }
  return charges;
}

}  // namespace

std::string RunView::json(std::size_t points) const {
  Json json = {{"id", id_},
               {"label", label_},
               {"folder", folder_.string()},
               {"algorithm", summary_ ? summary_->algorithm : algorithm_},
               {"metric", summary_ ? summary_->metric : metric_},
               {"higher", summary_ ? summary_->higher_is_better : higher_},
               {"target", number(summary_ ? summary_->target : target_)},
               {"status", status()},
               {"rounds", last_round_},
               {"planned", planned_},
               {"clients", number(clients_)},
               {"parameters", number(parameters_)},
               {"trained", number(trained_)},
               {"started", info_.started},
               {"command", info_.command},
               {"version", info_.chorus_version},
               {"torch", info_.torch_version},
               {"seed", info_.seed},
               {"config", text_of_file(folder_ / "config.yaml", kMostConfig)},
               {"round", columns_json(rounds_, "loss", points)},
               {"evaluation", columns_json(evaluations_, metric_, points)},
               {"thinned", rounds_.rows() > points || evaluations_.rows() > points}};
  json["failures"] = Json::array();
  for (const auto& [reason, failures] : failures_) {
    json["failures"].push_back(
        {{"reason", reason}, {"count", failures.count}, {"first", failures.first}, {"last", failures.last}});
  }
  json["failed"] = failed_;
  const Json clients = Json::parse(text_of_file(folder_ / "clients.json", kMostClients), nullptr, false);
  json["partition"] = clients.is_object() && clients.contains("clients") ? clients : Json(nullptr);
  json["scores"] = client_scores_ ? scores_of(*client_scores_) : Json(nullptr);
  json["deciles"] = Json::array();
  json["targets"] = Json::array();
  if (summary_) {
    for (const DecileSummary& decile : summary_->deciles) {
      const auto score = decile.scores.find(summary_->metric);
      json["deciles"].push_back({{"name", decile.name},
                                 {"clients", decile.clients},
                                 {"score", score == decile.scores.end() ? Json(nullptr) : number(score->second)}});
    }
    for (const TargetReached& target : summary_->targets) {
      json["targets"].push_back({{"target", number(target.target)}, {"reached", milestone(target.reached)}});
    }
  }
  json["totals"] = Json::object();
  for (const auto& [name, value] : sums_) json["totals"][name] = number(value);
  json["privacy"] = privacy_of(summary_, privacy_);
  json["ledger"] = ledger_of(folder_);
  json["card"] = text_of_file(folder_ / "model" / "README.md", kMostCard);
  const Json progress = Json::parse(progress_, nullptr, false);
  json["progress"] = progress.is_object() && status() == kRunning ? progress : Json(nullptr);
  const Json server = Json::parse(server_, nullptr, false);
  json["server"] = server.is_object() && status() == kRunning ? server : Json(nullptr);
  json["controllable"] = process_.has_value() && (served() || info_.command.starts_with("chorus run") ||
                                                  info_.command.starts_with("chorus resume"));
  json["paused"] = paused_;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace chorus::inline report
