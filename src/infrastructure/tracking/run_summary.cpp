#include "infrastructure/tracking/run_summary.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/files/files.h"

namespace chorus::inline tracking {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSummaryFormat = 1;

Json summary_number(double value) {
  if (!std::isfinite(value)) return nullptr;
  return value;
}

Json to_json(const Scores& scores) {
  Json json = Json::object();
  for (const auto& [name, value] : scores) json[name] = summary_number(value);
  return json;
}

double number_of(const Json& json) { return json.is_null() ? std::nan("") : json.get<double>(); }

Scores scores_of(const Json& json) {
  Scores scores;
  for (const auto& [name, value] : json.get_ref<const Json::object_t&>()) scores[name] = number_of(value);
  return scores;
}

// Shared by writing and reading.
constexpr std::pair<const char*, double EmulatedTotals::*> kEmulatedNames[] = {
    {"emulated_seconds", &EmulatedTotals::seconds},
    {"emulated_joules", &EmulatedTotals::joules},
    {"client_joules", &EmulatedTotals::client_joules},
    {"client_bytes", &EmulatedTotals::client_bytes},
    {"client_memory", &EmulatedTotals::memory}};

constexpr std::pair<const char*, double RunSeconds::*> kSecondsNames[] = {
    {"setup_seconds", &RunSeconds::setup},
    {"train_seconds", &RunSeconds::training},
    {"evaluation_seconds", &RunSeconds::evaluation},
    {"checkpoint_seconds", &RunSeconds::checkpoints},
    {"checkpoint_background_seconds", &RunSeconds::checkpoints_background},
    {"save_seconds", &RunSeconds::saving}};

constexpr std::pair<const char*, double ClientSpread::*> kSpreadNames[] = {{"mean", &ClientSpread::mean},
                                                                           {"deviation", &ClientSpread::deviation},
                                                                           {"worst_tenth", &ClientSpread::worst_tenth},
                                                                           {"best_tenth", &ClientSpread::best_tenth},
                                                                           {"jain", &ClientSpread::jain}};

Json to_json(const ClientSpread& spread) {
  Json json = {{"model", spread.model}, {"newcomers", spread.newcomers}, {"clients", spread.clients}};
  for (const auto& [name, member] : kSpreadNames) json[name] = summary_number(spread.*member);
  if (spread.gain) json["gain"] = summary_number(*spread.gain);
  if (spread.gaining) json["gaining"] = *spread.gaining;
  return json;
}

ClientSpread spread_of(const Json& json) {
  ClientSpread spread;
  spread.model = json.at("model").get<std::string>();
  spread.newcomers = json.at("newcomers").get<bool>();
  spread.clients = json.at("clients").get<std::int64_t>();
  for (const auto& [name, member] : kSpreadNames) spread.*member = number_of(json.at(name));
  if (json.contains("gain")) spread.gain = number_of(json["gain"]);
  if (json.contains("gaining")) spread.gaining = json["gaining"].get<double>();
  return spread;
}

void put_emulated(Json& json, const EmulatedTotals& totals) {
  for (const auto& [name, member] : kEmulatedNames) json[name] = totals.*member;
}

std::optional<EmulatedTotals> emulated_of(const Json& json) {
  if (!json.contains("emulated_seconds")) return std::nullopt;
  EmulatedTotals totals;
  for (const auto& [name, member] : kEmulatedNames) totals.*member = json.contains(name) ? json[name].get<double>() : 0;
  return totals;
}

Json to_json(const std::optional<Milestone>& milestone, bool emulated) {
  if (!milestone) return nullptr;
  Json json = {{"round", milestone->round},
               {"score", summary_number(milestone->score)},
               {"seconds", milestone->seconds},
               {"bytes", milestone->bytes}};
  if (emulated) put_emulated(json, milestone->emulated);
  return json;
}

std::optional<Milestone> milestone_of(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return Milestone{json.at("round").get<std::int64_t>(), number_of(json.at("score")), json.at("seconds").get<double>(),
                   json.at("bytes").get<double>(), emulated_of(json).value_or(EmulatedTotals{})};
}

RunSummary summary_of(const Json& json) {
  RunSummary summary;
  summary.status = json.at("status").get<std::string>();
  summary.algorithm = json.at("algorithm").get<std::string>();
  summary.metric = json.at("metric").get<std::string>();
  summary.higher_is_better = json.at("higher_is_better").get<bool>();
  if (json.contains("target")) summary.target = json["target"].get<double>();
  if (json.contains("rounds_to_target")) summary.rounds_to_target = json["rounds_to_target"].get<std::int64_t>();
  summary.rounds = json.at("rounds").get<std::int64_t>();
  summary.best_round = json.at("best_round").get<std::int64_t>();
  summary.last = scores_of(json.at("last"));
  summary.best = scores_of(json.at("best"));
  summary.examples = json.at("examples").get<double>();
  summary.bytes_up = json.at("bytes_up").get<double>();
  summary.bytes_down = json.at("bytes_down").get<double>();
  summary.seconds = json.at("seconds").get<double>();
  for (const auto& [name, member] : kSecondsNames) {
    if (json.contains(name)) summary.parts.*member = json[name].get<double>();
  }
  summary.emulated = emulated_of(json);
  if (json.contains("targets")) {
    for (const Json& target : json["targets"]) {
      summary.targets.push_back(
          {target.at("target").get<double>(), milestone_of(target.at("reached")), milestone_of(target.at("before"))});
    }
  }
  if (json.contains("phases")) {
    for (const Json& phase : json["phases"]) {
      summary.phases.push_back({phase.at("name").get<std::string>(), phase.at("first_round").get<std::int64_t>(),
                                phase.at("rounds").get<std::int64_t>(), scores_of(phase.at("last")),
                                scores_of(phase.at("best"))});
    }
  }
  if (json.contains("deciles")) {
    for (const Json& decile : json["deciles"]) {
      summary.deciles.push_back({decile.at("name").get<std::string>(), decile.at("clients").get<std::int64_t>(),
                                 scores_of(decile.at("scores"))});
    }
  }
  if (json.contains("own_test")) {
    for (const Json& spread : json["own_test"]) summary.spreads.push_back(spread_of(spread));
  }
  if (json.contains("privacy")) {
    const Json& privacy = json["privacy"];
    summary.privacy = PrivacyReport{.epsilon = privacy.at("epsilon").get<double>(),
                                    .delta = privacy.at("delta").get<double>(),
                                    .noise = privacy.at("noise").get<double>(),
                                    .sampling_rate = privacy.at("sampling_rate").get<double>(),
                                    .charges = privacy.at("charges").get<std::int64_t>(),
                                    .statement = privacy.at("statement").get<std::string>()};
  }
  return summary;
}

}  // namespace

std::string to_json(const RunSummary& summary) {
  Json json = {{"format", kSummaryFormat},
               {"status", summary.status},
               {"algorithm", summary.algorithm},
               {"metric", summary.metric},
               {"higher_is_better", summary.higher_is_better}};
  if (summary.target) json["target"] = *summary.target;
  if (summary.rounds_to_target) json["rounds_to_target"] = *summary.rounds_to_target;
  json["rounds"] = summary.rounds;
  json["best_round"] = summary.best_round;
  json["last"] = to_json(summary.last);
  json["best"] = to_json(summary.best);
  json["examples"] = summary.examples;
  json["bytes_up"] = summary.bytes_up;
  json["bytes_down"] = summary.bytes_down;
  json["seconds"] = summary.seconds;
  for (const auto& [name, member] : kSecondsNames) json[name] = summary.parts.*member;
  if (summary.emulated) put_emulated(json, *summary.emulated);
  if (summary.privacy) {
    json["privacy"] = {{"epsilon", summary.privacy->epsilon}, {"delta", summary.privacy->delta},
                       {"noise", summary.privacy->noise},     {"sampling_rate", summary.privacy->sampling_rate},
                       {"charges", summary.privacy->charges}, {"statement", summary.privacy->statement}};
  }
  if (!summary.targets.empty()) json["targets"] = Json::array();
  for (const TargetReached& target : summary.targets) {
    json["targets"].push_back({{"target", target.target},
                               {"reached", to_json(target.reached, summary.emulated.has_value())},
                               {"before", to_json(target.before, summary.emulated.has_value())}});
  }
  if (!summary.phases.empty()) json["phases"] = Json::array();
  for (const PhaseSummary& phase : summary.phases) {
    json["phases"].push_back({{"name", phase.name},
                              {"first_round", phase.first_round},
                              {"rounds", phase.rounds},
                              {"last", to_json(phase.last)},
                              {"best", to_json(phase.best)}});
  }
  if (!summary.deciles.empty()) json["deciles"] = Json::array();
  for (const DecileSummary& decile : summary.deciles) {
    json["deciles"].push_back({{"name", decile.name}, {"clients", decile.clients}, {"scores", to_json(decile.scores)}});
  }
  if (!summary.spreads.empty()) json["own_test"] = Json::array();
  for (const ClientSpread& spread : summary.spreads) json["own_test"].push_back(to_json(spread));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

RunSummary parse_run_summary(const std::string& text, const std::string& where) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("format"))
    throw DataError(fmt::format("{}: is not a summary of a run", where));
  if (json["format"] != kSummaryFormat) {
    throw DataError(
        fmt::format("{}: has format {}, but this program reads {}", where, json["format"].dump(), kSummaryFormat));
  }
  try {
    return summary_of(json);
  } catch (const Json::exception& error) {
    std::string_view reason = error.what();  // "[json.exception.out_of_range.403] key 'rounds' not found"
    if (const auto end = reason.find("] "); end != std::string_view::npos) reason.remove_prefix(end + 2);
    throw DataError(fmt::format("{}: is not a summary of a run: {}", where, reason));
  }
}

std::optional<RunSummary> read_run_summary(const std::filesystem::path& run_folder) {
  const std::filesystem::path path = run_folder / "summary.json";
  if (!std::filesystem::exists(path)) return std::nullopt;
  return parse_run_summary(read_file(path, std::uint64_t{64} << 20), path.string());
}

}  // namespace chorus::inline tracking
