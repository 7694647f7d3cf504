#include "apps/audits/activation_audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/base/rng.h"

namespace chorus::inline audits {
namespace {

constexpr std::size_t kKnownTexts = 400;  // of the attacker
constexpr std::size_t kTargetsPerText = 8;

double number_of(Choice<Algorithms> algorithm, std::string_view name) {
  ConfigVisitor visitor;
  algorithm.describe(visitor);
  const ConfigField* field = visitor.find(name);
  check(field != nullptr, "split learning has this setting");
  const ConfigScalar value = field->get().front().second;
  const auto* whole = std::get_if<std::int64_t>(&value);
  return whole != nullptr ? static_cast<double>(*whole) : std::get<double>(value);
}

struct Sent {
  at::Tensor states;  // [n, H]
  at::Tensor ids;     // int64 [n]
};

// Activations of texts, without special tokens.
Sent sent_for(const AuditedRun& run, const Params& params, const EncodedDataset& encoded,
              std::span<const std::uint32_t> examples, int layers) {
  const at::NoGradGuard no_grad;
  const Experiment& experiment = run.experiment();
  std::vector<at::Tensor> states, ids;
  for (const std::uint32_t example : examples) {
    const auto [begin, end] = encoded.rows_of(example);
    if (begin == end) continue;
    const std::vector<std::uint32_t> rows{begin};
    const ClientRows cohort{&encoded, rows, 0};
    const TaskBatch batch = experiment.task().collate({&cohort, 1}, {.device = params.device()});
    Dropout off;
    const at::Tensor text = batch.batch.ids[0].cpu().contiguous();
    std::vector<std::int64_t> kept;
    for (std::int64_t t = 0; t < text.numel(); ++t) {
      const auto id = static_cast<std::int32_t>(text.data_ptr<std::int64_t>()[t]);
      if (!experiment.tokenizer().is_special(id)) kept.push_back(t);
    }
    if (kept.empty()) continue;
    const at::Tensor columns = torch::tensor(kept, at::kLong);
    states.push_back(experiment.model().bottom(params, batch.batch, layers, off)[0].cpu().index_select(0, columns));
    ids.push_back(text.index_select(0, columns));
  }
  if (states.empty()) throw ConfigError("activations: there are no texts to attack");
  return {torch::cat(states), torch::cat(ids)};
}

at::Tensor with_constant(const at::Tensor& x) { return torch::cat({x, torch::ones({x.size(0), 1})}, 1); }

// Share of the tokens whose nearest word, after the map, is the right one.
double recovered(const at::Tensor& map, const at::Tensor& words, const at::Tensor& states, const at::Tensor& ids) {
  const at::Tensor guesses = torch::mm(with_constant(states), map);
  double right = 0;
  for (std::int64_t first = 0; first < ids.numel(); first += 256) {
    const std::int64_t count = std::min<std::int64_t>(256, ids.numel() - first);
    // |g - w|^2 without the part that all words have.
    const at::Tensor far =
        words.square().sum(1).unsqueeze(0) - 2 * torch::mm(guesses.narrow(0, first, count), words.t());
    right += static_cast<double>(far.argmin(1).eq(ids.narrow(0, first, count)).sum().item<std::int64_t>());
  }
  return right / static_cast<double>(ids.numel());
}

}  // namespace

ActivationReport audit_activations(const AuditedRun& run, std::size_t texts) {
  const ExperimentConfig& config = run.config();
  if (!config.algorithm.traits().splits) {
    throw ConfigError(fmt::format(
        "activations: with algorithm: {} no activations leave the clients; attack a run of splitnn or splitfed",
        config.algorithm.name()));
  }
  const Experiment& experiment = run.experiment();
  ActivationReport report;
  report.layers = static_cast<int>(number_of(config.algorithm, "layers"));
  report.noise = number_of(config.algorithm, "noise");
  const Params params = Params::copies_of_start(run.trainer().base, 1, false, run.model());
  at::Tensor words;
  const auto& specs = experiment.model().layout().specs();
  for (std::size_t i = 0; i < specs.size() && !words.defined(); ++i) {
    if (specs[i].layer != kEmbeddingLayer || specs[i].shape.size() != 2) continue;
    if (specs[i].shape[0] == experiment.model().vocabulary()) words = params.tensor({static_cast<int>(i)}).cpu();
  }
  check(words.defined(), "a transformer has a word table");

  const auto seed = static_cast<std::uint64_t>(config.seed);
  std::vector<std::uint32_t> known = experiment.shared_test();
  known.resize(std::min(known.size(), kKnownTexts));
  const Sent own = sent_for(run, params, *experiment.test(), known, report.layers);
  std::vector<std::uint32_t> others(experiment.partition().train.ids().begin(),
                                    experiment.partition().train.ids().end());
  RandomStream({.seed = seed, .purpose = "activation audit"}).shuffle(std::span(others));
  others.resize(std::min(others.size(), texts * kTargetsPerText));
  const Sent target = sent_for(run, params, *experiment.train(), others, report.layers);

  RandomStream stream({.seed = seed, .purpose = "activation noise"});
  const auto noisy = [&](const at::Tensor& states) {
    at::Tensor noise = torch::empty_like(states);
    for (std::int64_t i = 0; i < noise.numel(); ++i) {
      noise.data_ptr<float>()[i] = static_cast<float>(report.noise * stream.normal());
    }
    return states + noise;
  };
  // The attacker knows how activations are protected, and learns from such.
  const auto attack = [&](const at::Tensor& seen_own, const at::Tensor& seen_target) {
    const at::Tensor a = with_constant(seen_own);
    const at::Tensor scale = 1e-3 * a.square().sum() / static_cast<double>(a.size(1));
    const at::Tensor gram = torch::mm(a.t(), a) + scale * torch::eye(a.size(1));
    const at::Tensor map = torch::mm(torch::mm(gram.inverse(), a.t()), words.index_select(0, own.ids));
    return recovered(map, words, seen_target, target.ids);
  };
  report.tokens = static_cast<std::size_t>(target.ids.numel());
  report.plain = attack(own.states, target.states);
  report.seen = report.noise > 0 ? attack(noisy(own.states), noisy(target.states)) : report.plain;
  std::map<std::int64_t, std::size_t> counts;
  for (std::int64_t i = 0; i < target.ids.numel(); ++i) ++counts[target.ids.data_ptr<std::int64_t>()[i]];
  for (const auto& entry : counts) {
    report.chance = std::max(report.chance, static_cast<double>(entry.second) / static_cast<double>(report.tokens));
  }
  return report;
}

}  // namespace chorus::inline audits
