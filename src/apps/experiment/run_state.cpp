#include "apps/experiment/run_state.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace chorus::inline experiment {
namespace {

using nlohmann::json;

// One list for writing and reading.
constexpr std::pair<const char*, double EmulatedTotals::*> kEmulated[] = {
    {"seconds", &EmulatedTotals::seconds},
    {"joules", &EmulatedTotals::joules},
    {"client_joules", &EmulatedTotals::client_joules},
    {"client_bytes", &EmulatedTotals::client_bytes},
    {"memory", &EmulatedTotals::memory}};

// JSON has no NaN and no infinities.
json number_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

double json_number(const json& value) {
  if (value == "nan") return std::nan("");
  if (value == "inf") return HUGE_VAL;
  if (value == "-inf") return -HUGE_VAL;
  return value.get<double>();
}

json milestone_json(const std::optional<Milestone>& milestone) {
  if (!milestone) return nullptr;
  json result = {{"round", milestone->round},
                 {"score", number_json(milestone->score)},
                 {"seconds", number_json(milestone->seconds)},
                 {"bytes", number_json(milestone->bytes)}};
  for (const auto& [name, member] : kEmulated) result["emulated"][name] = number_json(milestone->emulated.*member);
  return result;
}

std::optional<Milestone> json_milestone(const json& value) {
  if (value.is_null()) return std::nullopt;
  Milestone milestone{value.at("round"), json_number(value.at("score")), json_number(value.at("seconds")),
                      json_number(value.at("bytes"))};
  for (const auto& [name, member] : kEmulated) milestone.emulated.*member = json_number(value.at("emulated").at(name));
  return milestone;
}

constexpr const char* kServer = "server.";
constexpr const char* kFilters = "filters.";
constexpr const char* kAggregation = "aggregation.";
constexpr const char* kLedgers = "ledgers/";

void put(std::map<std::string, double>& numbers, const std::string& prefix, const Scores& scores) {
  for (const auto& [name, value] : scores) numbers[prefix + name] = value;
}

json scores_json(const Scores& scores) {
  json result = json::object();
  for (const auto& [name, value] : scores) result[name] = number_json(value);
  return result;
}

Scores json_scores(const json& object) {
  Scores scores;
  for (const auto& [name, value] : object.items()) scores[name] = json_number(value);
  return scores;
}

/// Hands out each field of a checkpoint once, so that what is missing and what is left over can be told.
class CheckpointFields {
 public:
  explicit CheckpointFields(const Checkpoint& checkpoint)
      : tensors_(checkpoint.tensors), numbers_(checkpoint.numbers), texts_(checkpoint.texts) {}

  at::Tensor tensor(const std::string& name) { return take(tensors_, "tensor", name); }
  double number(const std::string& name) { return take(numbers_, "number", name); }
  std::string text(const std::string& name) { return take(texts_, "text", name); }

  /// A count: whole, and exact in a double.
  std::int64_t whole(const std::string& name) {
    const double value = number(name);
    if (!(value >= 0 && value <= 9007199254740992.0 && value == std::floor(value))) {
      throw DataError(fmt::format("the checkpoint's number \"{}\" is {}, which is no count", name, value));
    }
    return static_cast<std::int64_t>(value);
  }
  bool has_number(const std::string& name) const { return numbers_.contains(name); }
  bool has_tensor(const std::string& name) const { return tensors_.contains(name); }

  std::map<std::string, at::Tensor> tensors(const std::string& prefix) { return take_all(tensors_, prefix); }
  Scores numbers(const std::string& prefix) { return take_all(numbers_, prefix); }
  std::map<std::string, std::string> texts(const std::string& prefix) { return take_all(texts_, prefix); }

  void check_empty() const {
    check_none(tensors_, "tensor");
    check_none(numbers_, "number");
    check_none(texts_, "text");
  }

 private:
  template <typename T>
  static T take(std::map<std::string, T>& fields, const char* kind, const std::string& name) {
    const auto found = fields.find(name);
    if (found == fields.end()) throw DataError(fmt::format("the checkpoint has no {} \"{}\"", kind, name));
    T value = std::move(found->second);
    fields.erase(found);
    return value;
  }
  template <typename T>
  static std::map<std::string, T> take_all(std::map<std::string, T>& fields, const std::string& prefix) {
    std::map<std::string, T> taken;
    for (auto field = fields.lower_bound(prefix); field != fields.end() && field->first.starts_with(prefix);) {
      taken[field->first.substr(prefix.size())] = std::move(field->second);
      field = fields.erase(field);
    }
    return taken;
  }
  template <typename T>
  static void check_none(const std::map<std::string, T>& fields, const char* kind) {
    if (fields.empty()) return;
    throw DataError(fmt::format("the checkpoint has a {} \"{}\", which this version of Chorus does not know", kind,
                                fields.begin()->first));
  }

  std::map<std::string, at::Tensor> tensors_;
  std::map<std::string, double> numbers_;
  std::map<std::string, std::string> texts_;
};

std::vector<std::uint32_t> read_coverage(const at::Tensor& counts) {
  if (counts.scalar_type() != at::kInt || counts.dim() != 1 || (counts.numel() > 0 && counts.min().item<int>() < 0)) {
    throw DataError("the checkpoint's tensor \"coverage\" is no list of counts");
  }
  const at::Tensor whole = counts.contiguous();
  const auto* begin = whole.data_ptr<std::int32_t>();
  return {begin, begin + whole.numel()};
}

at::Tensor kept_tensor(const std::map<ClientId, std::uint64_t>& kept) {
  at::Tensor rows = torch::empty({static_cast<std::int64_t>(kept.size()), 2}, at::kLong);
  auto* row = rows.data_ptr<std::int64_t>();
  for (const auto& [client, number] : kept) {
    *row++ = static_cast<std::int64_t>(client);
    *row++ = static_cast<std::int64_t>(number);
  }
  return rows;
}

std::map<ClientId, std::uint64_t> read_kept(const at::Tensor& rows) {
  if (rows.scalar_type() != at::kLong || rows.dim() != 2 || rows.size(1) != 2) {
    throw DataError("the checkpoint's tensor \"kept\" is no list of clients and requests");
  }
  std::map<ClientId, std::uint64_t> kept;
  const at::Tensor whole = rows.contiguous();
  const auto* row = whole.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < whole.size(0); ++i, row += 2) {
    kept[static_cast<ClientId>(row[0])] = static_cast<std::uint64_t>(row[1]);
  }
  return kept;
}

}  // namespace

void remember(const ServerMemory& memory, RunState& state) {
  state.server = memory.algorithm.state();
  state.variant = memory.algorithm.variant();
  state.aggregation = memory.aggregation.state();
  if (const std::string mark = memory.aggregation.ledger(); !mark.empty()) state.ledgers["privacy.ledger"] = mark;
  state.filters = memory.filters;
  state.coverage.assign(memory.coverage.times().begin(), memory.coverage.times().end());
  state.coverage_rounds = memory.coverage.rounds();
}

Checkpoint to_checkpoint(const RunState& state) {
  Checkpoint checkpoint;
  const RoundLoopState& loop = state.loop;
  checkpoint.round = loop.round;
  checkpoint.phase = state.phase;
  checkpoint.tensors["model"] = loop.model;
  // Right after the best round it is the model.
  if (loop.best_model.defined() && loop.best_round != loop.round) checkpoint.tensors["best_model"] = loop.best_model;
  for (const auto& [name, tensor] : state.server) checkpoint.tensors[kServer + name] = tensor;
  for (const auto& [name, tensor] : state.aggregation) checkpoint.tensors[kAggregation + name] = tensor;
  for (const auto& [name, tensor] : state.filters) checkpoint.tensors[kFilters + name] = tensor;
  at::Tensor coverage = torch::empty({static_cast<std::int64_t>(state.coverage.size())}, at::kInt);
  std::copy(state.coverage.begin(), state.coverage.end(), coverage.data_ptr<std::int32_t>());
  checkpoint.tensors["coverage"] = coverage;
  if (!state.kept.empty()) checkpoint.tensors["kept"] = kept_tensor(state.kept);
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
  checkpoint.numbers["checkpoint_background_seconds"] = state.checkpoint_background_seconds;
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
    targets.push_back({{"target", number_json(target.target)},
                       {"reached", milestone_json(target.reached)},
                       {"before", milestone_json(target.before)}});
  }
  checkpoint.texts["targets"] = targets.dump();
  checkpoint.texts["last_evaluation"] = milestone_json(loop.last_evaluation).dump();
  checkpoint.texts["deciles"] = deciles.dump();
  checkpoint.texts["phases"] = phases.dump();
  checkpoint.texts["data"] = state.data;
  for (const auto& [file, mark] : state.ledgers) checkpoint.texts[kLedgers + file] = mark;
  return checkpoint;
}

RunState to_run_state(const Checkpoint& checkpoint) {
  RunState state;
  RoundLoopState& loop = state.loop;
  CheckpointFields fields(checkpoint);
  loop.round = checkpoint.round;
  state.phase = checkpoint.phase;
  loop.model = fields.tensor("model");
  state.server = fields.tensors(kServer);
  state.aggregation = fields.tensors(kAggregation);
  state.filters = fields.tensors(kFilters);
  state.coverage = read_coverage(fields.tensor("coverage"));
  if (fields.has_tensor("kept")) state.kept = read_kept(fields.tensor("kept"));
  loop.last = fields.numbers("last/");
  loop.best = fields.numbers("best/");
  loop.best_round = fields.whole("best_round");
  if (!loop.best.empty())
    loop.best_model = loop.best_round == loop.round ? loop.model.clone() : fields.tensor("best_model");
  state.variant = {static_cast<int>(fields.number("depth")), static_cast<int>(fields.number("width"))};
  loop.best_variant = {static_cast<int>(fields.number("best_depth")), static_cast<int>(fields.number("best_width"))};
  loop.examples = fields.number("examples");
  loop.bytes_up = fields.number("bytes_up");
  loop.bytes_down = fields.number("bytes_down");
  loop.seconds = fields.number("seconds");
  loop.evaluation_seconds = fields.number("evaluation_seconds");
  state.setup_seconds = fields.number("setup_seconds");
  state.checkpoint_seconds = fields.number("checkpoint_seconds");
  state.checkpoint_background_seconds = fields.number("checkpoint_background_seconds");
  for (const auto& [name, member] : kEmulated) loop.emulated.*member = fields.number(std::string("emulated/") + name);
  state.coverage_rounds = static_cast<std::size_t>(fields.whole("coverage_rounds"));
  if (fields.has_number("rounds_to_target")) loop.rounds_to_target = fields.whole("rounds_to_target");
  state.data = fields.text("data");
  state.ledgers = fields.texts(kLedgers);
  const std::string deciles = fields.text("deciles"), phases = fields.text("phases"), targets = fields.text("targets"),
                    last_evaluation = fields.text("last_evaluation");
  fields.check_empty();
  try {
    for (const json& decile : json::parse(deciles)) {
      loop.deciles.push_back({decile.at("name"), decile.at("clients"), json_scores(decile.at("scores"))});
    }
    for (const json& phase : json::parse(phases)) {
      state.phases.push_back({phase.at("name"), phase.at("first_round"), phase.at("rounds"),
                              json_scores(phase.at("last")), json_scores(phase.at("best"))});
    }
    for (const json& target : json::parse(targets)) {
      loop.targets.push_back({json_number(target.at("target")), json_milestone(target.at("reached")),
                              json_milestone(target.at("before"))});
    }
    loop.last_evaluation = json_milestone(json::parse(last_evaluation));
  } catch (const json::exception& error) {
    throw DataError(std::string("the checkpoint's lists cannot be read: ") + error.what());
  }
  return state;
}

std::string mark_of(const std::map<std::string, std::string>& ledgers, const std::string& file) {
  const auto found = ledgers.find(file);
  return found == ledgers.end() ? "" : found->second;
}

void add_report(RunState& state, const PrivacyReport& examples) {
  if (!state.privacy) {
    state.privacy = examples;
  } else {
    state.privacy->statement += " Besides: " + examples.statement;
  }
}

PrivacyReport except_own_models(PrivacyReport report, const AlgorithmTraits& traits) {
  if (!traits.own_models) return report;
  if (traits.personal) report.statement += " The server has no model: this is about the answers that it releases.";
  report.statement +=
      " Not covered: clients' own models, which learn the clients' data without this noise; whoever sees one may learn "
      "about its client's data.";
  return report;
}

PhaseSummary summarize_phase(const std::string& name, std::int64_t first_round, const RoundLoopState& loop) {
  return {name, first_round, loop.round - first_round + 1, loop.last, loop.best};
}

}  // namespace chorus::inline experiment
