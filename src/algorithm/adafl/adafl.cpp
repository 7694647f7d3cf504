#include "algorithm/adafl/adafl.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "algorithm/federated/collect.h"
#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/console/log.h"

namespace chorus::inline adafl {
namespace {

const Registration<Algorithms, AdaFlConfig> kAdaFl{
    "adafl",
    "adapters that grow in depth and width, chosen by trials (Cai et al. 2023)",
    [](const AdaFlConfig& config) { return std::make_unique<AdaFl>(config); },
    {.variants = true, .clock = true}};

constexpr std::array<const char*, 3> kNames{"shallow", "deep", "wide"};

}  // namespace

void AdaFlConfig::describe(ConfigVisitor& visitor) {
  visitor.field("depth", depth, "initial number of layers with adapters (D_0)").at_least(0);
  visitor.field("width", width, "initial width of the adapters (W_0)").at_least(1);
  visitor.field("depth_step", depth_step, "layers that the deep branch adds (S_d)").at_least(1);
  visitor.field("width_step", width_step, "width that the wide branch adds (S_w)").at_least(1);
  visitor.field("interval", interval, "emulated seconds of a trial at depth 0").above(0);
  visitor.field("expand", expand, "a trial at depth D lasts interval * (expand * D + 1)").at_least(0);
  visitor.field("skip_depth_one", skip_depth_one, "a deep branch of depth 1 becomes 2, as in the published code");
}

AdaFl::AdaFl(const AdaFlConfig& config)
    : config_(config), now_{static_cast<int>(config.depth), static_cast<int>(config.width)} {}

Configurator AdaFl::configurator(const Variants& variants) const {
  ConfiguratorRules rules;
  rules.interval = config_.interval;
  rules.expand = config_.expand;
  rules.depth_step = static_cast<int>(config_.depth_step);
  rules.width_step = static_cast<int>(config_.width_step);
  rules.most_depth = variants.whole().depth;
  rules.most_width = variants.whole().width;
  rules.skip_depth_one = config_.skip_depth_one;
  return {rules, now_};
}

RoundResult AdaFl::round(const RoundInput& input) {
  check(input.variants != nullptr && input.judge != nullptr, "AdaFL needs variants and a judge");
  const Variants& variants = *input.variants;
  if (now_.depth > variants.whole().depth || now_.width > variants.whole().width) {
    throw ConfigError(fmt::format("algorithm: adafl starts at depth {} and width {}, but tuning has at most {} and {}",
                                  now_.depth, now_.width, variants.whole().depth, variants.whole().width));
  }
  if (config_.width % variants.unit() != 0 || config_.width_step % variants.unit() != 0) {
    throw ConfigError(fmt::format("algorithm: adafl's width {} and width_step {} must be multiples of tuning.unit {}",
                                  config_.width, config_.width_step, variants.unit()));
  }
  if (input.cohort.size() < 3) {
    throw ConfigError("clients_per_round: adafl trains three groups; at least 3 clients are needed");
  }
  const Configurator configurator = this->configurator(variants);
  if (!in_trial_) begin_trial(input, configurator);

  std::vector<Member> members(input.cohort.begin(), input.cohort.end());
  std::sort(members.begin(), members.end(), [](const Member& a, const Member& b) { return a.client < b.client; });
  RandomStream stream({.seed = input.seed, .purpose = "adafl groups", .round = input.round});
  stream.shuffle(std::span(members));
  const double before = clock();
  RoundResult result;
  result.loss = std::nan("");
  std::vector<Group*> trying;  // a branch that cannot grow needs no clients
  for (const Configurator::Branch branch : Configurator::kBranches) {
    if (configurator.differs(branch)) trying.push_back(&groups_[branch]);
  }
  const auto spend = [&](Group& group, double seconds) {
    group.seconds += seconds;
    // Slack for rounding, so that n rounds of t / n fit into t.
    group.done = group.seconds + std::max(group.longest, seconds) > configurator.trial_seconds() * (1 + 1e-9);
  };
  double longest = 0;
  std::vector<Group*> failed;  // by a sum that was given up before anybody worked
  for (std::size_t k = 0; k < trying.size(); ++k) {
    Group& group = *trying[k];
    if (group.done) continue;
    std::vector<Member> cohort;
    for (std::size_t i = k; i < members.size(); i += trying.size()) cohort.push_back(members[i]);
    const std::size_t clients = cohort.size();
    RoundResult part = train(input, group, std::move(cohort));
    const double seconds = part.emulated.totals.seconds;
    if (seconds > 0) {
      group.longest = std::max(group.longest, seconds);
      ++group.rounds;
      spend(group, seconds);
      longest = std::max(longest, seconds);
    } else if (part.failed.size() == clients) {
      failed.push_back(&group);
    } else {
      throw ConfigError("algorithm: adafl measures its trials by the emulated clock; give `emulation`");
    }
    join(result, std::move(part));
  }
  // It waits for the others, as it would for its own clients.
  for (Group* group : failed) spend(*group, longest);
  result.emulated.totals.seconds = clock() - before;
  if (std::all_of(groups_.begin(), groups_.end(), [](const Group& group) { return group.done; })) {
    end_trial(input, configurator, result);
  } else {
    input.model.copy_(groups_[Configurator::kShallow].model);
  }
  result.numbers["depth"] = now_.depth;
  result.numbers["width"] = now_.width;
  result.numbers["trials"] = trials_;
  return result;
}

void AdaFl::begin_trial(const RoundInput& input, const Configurator& configurator) {
  for (const Configurator::Branch branch : Configurator::kBranches) {
    Group& group = groups_[branch];
    group = {};
    group.variant = configurator.variant(branch);
    group.model = input.model.clone();
    group.done = !configurator.differs(branch);
  }
  in_trial_ = true;
}

RoundResult AdaFl::train(const RoundInput& input, Group& group, std::vector<Member> cohort) const {
  const at::Tensor part = input.variants->take(group.variant, group.model);
  const RoundInput of_group = part_of(input, cohort, part);
  Request request = request_with_model(of_group, "train");
  write_variant(group.variant, request.body);
  Collected collected = collect(of_group, std::move(request));
  if (collected.means[0].defined()) {
    part.add_(collected.means[0]);
    input.variants->put(group.variant, part, group.model);
  }
  return std::move(collected.result);
}

void AdaFl::end_trial(const RoundInput& input, Configurator configurator, RoundResult& result) {
  std::array<double, 3> scores{};
  std::string results;
  for (const Configurator::Branch branch : Configurator::kBranches) {
    const Group& group = groups_[branch];
    scores[branch] = group.rounds > 0 ? input.judge(group.model, group.variant) : -HUGE_VAL;
    if (group.rounds == 0) continue;
    result.numbers[std::string("trial/") + kNames[branch]] = scores[branch];
    results += fmt::format("  {} ({}, {}) {:.4f} after {} rounds", kNames[branch], group.variant.depth,
                           group.variant.width, scores[branch], group.rounds);
  }
  const Configurator::Branch winner = Configurator::winner(scores);
  configurator.adopt(winner);
  now_ = configurator.now();
  input.model.copy_(groups_[winner].model);
  groups_ = {};
  in_trial_ = false;
  ++trials_;
  Log("adafl").info("round {}: {} wins:{}", input.round, kNames[winner], results);
}

double AdaFl::clock() const {
  double latest = 0;
  for (const Group& group : groups_) latest = std::max(latest, group.seconds);
  return latest;
}

std::map<std::string, at::Tensor> AdaFl::state() const {
  std::vector<double> numbers{static_cast<double>(now_.depth), static_cast<double>(now_.width), trials_,
                              in_trial_ ? 1.0 : 0.0};
  std::map<std::string, at::Tensor> state;
  for (std::size_t k = 0; in_trial_ && k < groups_.size(); ++k) {
    const Group& group = groups_[k];
    numbers.insert(numbers.end(), {static_cast<double>(group.variant.depth), static_cast<double>(group.variant.width),
                                   group.seconds, group.longest, group.rounds, group.done ? 1.0 : 0.0});
    state[fmt::format("group.{}", k)] = group.model;
  }
  state["numbers"] = at::tensor(numbers, at::kDouble);
  return state;
}

void AdaFl::restore(const std::map<std::string, at::Tensor>& state) {
  if (state.empty()) return;
  const auto found = state.find("numbers");
  if (found == state.end() || found->second.scalar_type() != at::kDouble || found->second.numel() < 4) {
    throw DataError("the checkpoint does not hold the state of adafl");
  }
  const at::Tensor flat = found->second.cpu().contiguous();
  const double* number = flat.data_ptr<double>();
  now_ = {static_cast<int>(number[0]), static_cast<int>(number[1])};
  trials_ = number[2];
  in_trial_ = number[3] != 0;
  if (!in_trial_) return;
  if (flat.numel() != 4 + 6 * 3) throw DataError("the checkpoint does not hold adafl's three groups");
  for (std::size_t k = 0; k < groups_.size(); ++k) {
    const double* of_group = number + 4 + 6 * k;
    const auto model = state.find(fmt::format("group.{}", k));
    if (model == state.end()) throw DataError("the checkpoint does not hold adafl's three groups");
    groups_[k] = {{static_cast<int>(of_group[0]), static_cast<int>(of_group[1])},
                  model->second.clone(),
                  of_group[2],
                  of_group[3],
                  of_group[4],
                  of_group[5] != 0};
  }
}

}  // namespace chorus::inline adafl
