#include "apps/experiment/run_state.h"

#include <torch/types.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace chorus {
namespace {

using nlohmann::json;

// One list for writing and reading.
constexpr std::pair<const char*, double EmulatedTotals::*> kEmulated[] = {
    {"seconds", &EmulatedTotals::seconds},
    {"joules", &EmulatedTotals::joules},
    {"client_joules", &EmulatedTotals::client_joules},
    {"client_bytes", &EmulatedTotals::client_bytes},
    {"memory", &EmulatedTotals::memory}};

json milestone_json(const std::optional<Milestone>& milestone) {
  if (!milestone) return nullptr;
  json result = {{"round", milestone->round},
                 {"score", milestone->score},
                 {"seconds", milestone->seconds},
                 {"bytes", milestone->bytes}};
  for (const auto& [name, member] : kEmulated) result["emulated"][name] = milestone->emulated.*member;
  return result;
}

std::optional<Milestone> json_milestone(const json& value) {
  if (value.is_null()) return std::nullopt;
  Milestone milestone{value.at("round"), value.at("score"), value.at("seconds"), value.at("bytes")};
  for (const auto& [name, member] : kEmulated) milestone.emulated.*member = value.at("emulated").at(name);
  return milestone;
}

constexpr const char* kServer = "server.";
constexpr const char* kFilters = "filters.";

void put(std::map<std::string, double>& numbers, const std::string& prefix, const Scores& scores) {
  for (const auto& [name, value] : scores) numbers[prefix + name] = value;
}

Scores take(const std::map<std::string, double>& numbers, const std::string& prefix) {
  Scores scores;
  for (const auto& [name, value] : numbers) {
    if (name.starts_with(prefix)) scores[name.substr(prefix.size())] = value;
  }
  return scores;
}

double number(const Checkpoint& checkpoint, const std::string& name) {
  const auto found = checkpoint.numbers.find(name);
  if (found == checkpoint.numbers.end()) throw DataError("the checkpoint has no number \"" + name + "\"");
  return found->second;
}

// JSON has no NaN: an undefined score is null.
json scores_json(const Scores& scores) {
  json result = json::object();
  for (const auto& [name, value] : scores) result[name] = std::isfinite(value) ? json(value) : json(nullptr);
  return result;
}

Scores json_scores(const json& object) {
  Scores scores;
  for (const auto& [name, value] : object.items()) {
    scores[name] = value.is_null() ? std::nan("") : value.get<double>();
  }
  return scores;
}

}  // namespace

Checkpoint to_checkpoint(const RunState& state) {
  Checkpoint checkpoint;
  const RoundLoopState& loop = state.loop;
  checkpoint.round = loop.round;
  checkpoint.phase = state.phase;
  checkpoint.tensors["model"] = loop.model;
  if (loop.best_model.defined()) checkpoint.tensors["best_model"] = loop.best_model;
  for (const auto& [name, tensor] : state.server) checkpoint.tensors[kServer + name] = tensor;
  for (const auto& [name, tensor] : state.filters) checkpoint.tensors[kFilters + name] = tensor;
  at::Tensor coverage = torch::empty({static_cast<std::int64_t>(state.coverage.size())}, at::kInt);
  std::copy(state.coverage.begin(), state.coverage.end(), coverage.data_ptr<std::int32_t>());
  checkpoint.tensors["coverage"] = coverage;
  put(checkpoint.numbers, "last/", loop.last);
  put(checkpoint.numbers, "best/", loop.best);
  checkpoint.numbers["best_round"] = static_cast<double>(loop.best_round);
  checkpoint.numbers["depth"] = state.variant.depth;
  checkpoint.numbers["width"] = state.variant.width;
  checkpoint.numbers["best_depth"] = loop.best_variant.depth;
  checkpoint.numbers["best_width"] = loop.best_variant.width;
  checkpoint.numbers["examples"] = loop.examples;
  checkpoint.numbers["bytes_up"] = loop.bytes_up;
  checkpoint.numbers["bytes_down"] = loop.bytes_down;
  checkpoint.numbers["seconds"] = loop.seconds;
  checkpoint.numbers["evaluation_seconds"] = loop.evaluation_seconds;
  checkpoint.numbers["setup_seconds"] = state.setup_seconds;
  checkpoint.numbers["checkpoint_seconds"] = state.checkpoint_seconds;
  for (const auto& [name, member] : kEmulated) {
    checkpoint.numbers[std::string("emulated/") + name] = loop.emulated.*member;
  }
  checkpoint.numbers["coverage_rounds"] = static_cast<double>(state.coverage_rounds);
  if (loop.rounds_to_target) checkpoint.numbers["rounds_to_target"] = static_cast<double>(*loop.rounds_to_target);
  json deciles = json::array(), phases = json::array();
  for (const ClientGroupScores& decile : loop.deciles) {
    deciles.push_back({{"name", decile.name}, {"clients", decile.clients}, {"scores", scores_json(decile.scores)}});
  }
  for (const PhaseSummary& phase : state.phases) {
    phases.push_back({{"name", phase.name},
                      {"first_round", phase.first_round},
                      {"rounds", phase.rounds},
                      {"last", scores_json(phase.last)},
                      {"best", scores_json(phase.best)}});
  }
  json targets = json::array();
  for (const TargetReached& target : loop.targets) {
    targets.push_back({{"target", target.target},
                       {"reached", milestone_json(target.reached)},
                       {"before", milestone_json(target.before)}});
  }
  checkpoint.texts["targets"] = targets.dump();
  checkpoint.texts["last_evaluation"] = milestone_json(loop.last_evaluation).dump();
  checkpoint.texts["deciles"] = deciles.dump();
  checkpoint.texts["phases"] = phases.dump();
  checkpoint.texts["data"] = state.data;
  return checkpoint;
}

RunState to_run_state(const Checkpoint& checkpoint) {
  RunState state;
  RoundLoopState& loop = state.loop;
  loop.round = checkpoint.round;
  state.phase = checkpoint.phase;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (name == "model") loop.model = tensor;
    if (name == "best_model") loop.best_model = tensor;
    if (name.starts_with(kServer)) state.server[name.substr(std::string(kServer).size())] = tensor;
    if (name.starts_with(kFilters)) state.filters[name.substr(std::string(kFilters).size())] = tensor;
    if (name == "coverage") {
      const at::Tensor counts = tensor.to(at::kInt).contiguous();
      state.coverage.assign(counts.data_ptr<std::int32_t>(), counts.data_ptr<std::int32_t>() + counts.numel());
    }
  }
  if (!loop.model.defined()) throw DataError("the checkpoint has no model");
  loop.last = take(checkpoint.numbers, "last/");
  loop.best = take(checkpoint.numbers, "best/");
  loop.best_round = static_cast<std::int64_t>(number(checkpoint, "best_round"));
  state.variant = {static_cast<int>(number(checkpoint, "depth")), static_cast<int>(number(checkpoint, "width"))};
  loop.best_variant = {static_cast<int>(number(checkpoint, "best_depth")),
                       static_cast<int>(number(checkpoint, "best_width"))};
  loop.examples = number(checkpoint, "examples");
  loop.bytes_up = number(checkpoint, "bytes_up");
  loop.bytes_down = number(checkpoint, "bytes_down");
  loop.seconds = number(checkpoint, "seconds");
  loop.evaluation_seconds = number(checkpoint, "evaluation_seconds");
  state.setup_seconds = number(checkpoint, "setup_seconds");
  state.checkpoint_seconds = number(checkpoint, "checkpoint_seconds");
  for (const auto& [name, member] : kEmulated) {
    loop.emulated.*member = number(checkpoint, std::string("emulated/") + name);
  }
  state.coverage_rounds = static_cast<std::size_t>(number(checkpoint, "coverage_rounds"));
  if (const auto found = checkpoint.numbers.find("rounds_to_target"); found != checkpoint.numbers.end()) {
    loop.rounds_to_target = static_cast<std::int64_t>(found->second);
  }
  try {
    for (const json& decile : json::parse(checkpoint.texts.at("deciles"))) {
      loop.deciles.push_back({decile.at("name"), decile.at("clients"), json_scores(decile.at("scores"))});
    }
    for (const json& phase : json::parse(checkpoint.texts.at("phases"))) {
      state.phases.push_back({phase.at("name"), phase.at("first_round"), phase.at("rounds"),
                              json_scores(phase.at("last")), json_scores(phase.at("best"))});
    }
    for (const json& target : json::parse(checkpoint.texts.at("targets"))) {
      loop.targets.push_back(
          {target.at("target"), json_milestone(target.at("reached")), json_milestone(target.at("before"))});
    }
    loop.last_evaluation = json_milestone(json::parse(checkpoint.texts.at("last_evaluation")));
    state.data = checkpoint.texts.at("data");
  } catch (const std::exception& error) {
    throw DataError(std::string("the checkpoint's lists cannot be read: ") + error.what());
  }
  return state;
}

}  // namespace chorus
