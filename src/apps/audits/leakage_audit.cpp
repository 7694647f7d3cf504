#include "apps/audits/leakage_audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "application/trainer/private_training.h"
#include "core/base/error.h"
#include "core/base/rng.h"

namespace chorus::inline audits {
namespace {

const ParamSpec* word_table(const Model& model) {
  for (const ParamSpec& spec : model.layout().specs()) {
    if (spec.trainable && spec.layer == kEmbeddingLayer && spec.shape.size() == 2 &&
        spec.shape[0] == model.vocabulary()) {
      return &spec;
    }
  }
  return nullptr;
}

/// A text as the model reads it.
struct Tokens {
  std::vector<std::int64_t> ids;
  std::int32_t label = 0;
};

class Reconstruction {
 public:
  Reconstruction(const AuditedRun& run, const ParamSpec& table)
      : run_(run),
        table_(table),
        plain_sgd_(run.config().trainer.optimizer.name() == "sgd"),
        trainer_(run.trainer()),
        pass_(trainer_, quiet(run.config().trainer), run.model(), kTogether) {}

  // `text`: how long it is and where its special tokens are, which follow from the tokenizer.
  Tokens attack(const at::Tensor& update, const Tokens& text, std::size_t sweeps) const {
    const at::Tensor rows = update.narrow(0, table_.offset, table_.count).view({table_.shape[0], table_.shape[1]});
    std::vector<std::int64_t> distinct;
    for (const std::int64_t id : text.ids) {
      if (!special(id) && std::find(distinct.begin(), distinct.end(), id) == distinct.end()) distinct.push_back(id);
    }
    at::Tensor norms = rows.norm(2, {1});
    for (std::int64_t id = 0; id < norms.size(0); ++id) {
      if (special(id)) norms[id] = -1;
    }
    const at::Tensor best = std::get<1>(norms.topk(static_cast<std::int64_t>(distinct.size()))).cpu();
    std::vector<std::int64_t> found(best.data_ptr<std::int64_t>(), best.data_ptr<std::int64_t>() + best.numel());
    Tokens guess = text;  // its special tokens
    std::size_t next = 0;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < guess.ids.size(); ++i) {
      if (special(guess.ids[i])) continue;
      guess.ids[i] = found[next++ % found.size()];
      places.push_back(i);
    }
    search(update, guess, places, sweeps);
    return guess;
  }

 private:
  static constexpr std::int64_t kTogether = 64;

  static TrainerConfig quiet(TrainerConfig config) {
    config.dropout = false;
    return config;
  }
  bool special(std::int64_t id) const {
    return run_.experiment().tokenizer().is_special(static_cast<std::int32_t>(id));
  }

  // How well the gradients of candidates explain the update.
  std::vector<double> likeness(const at::Tensor& update, const std::vector<Tokens>& candidates) const {
    std::vector<double> result;
    for (std::size_t first = 0; first < candidates.size(); first += kTogether) {
      EncodedPart part;
      const std::size_t count = std::min<std::size_t>(kTogether, candidates.size() - first);
      for (std::size_t i = 0; i < count; ++i) {
        for (const std::int64_t id : candidates[first + i].ids) part.ids.push_back(static_cast<std::int32_t>(id));
        if (!run_.experiment().task().labels().empty()) part.labels.push_back(candidates[first + i].label);
        part.end_row();
        part.end_example(static_cast<std::uint32_t>(i));
      }
      TrainClient client{
          0, {std::make_shared<EncodedDataset>(std::move(part), run_.experiment().task().limits()), {}}, 1};
      client.data.rows.resize(count);
      std::iota(client.data.rows.begin(), client.data.rows.end(), 0U);
      at::Tensor gradients = pass_.run({client, examples_of(client.data), {}, 0}).cpu();
      if (!plain_sgd_) gradients = gradients.sign();  // the first step of an adaptive method
      const at::Tensor products = gradients.mv(update.neg()) / gradients.norm(2, {1}).clamp_min(1e-20);
      for (std::size_t i = 0; i < count; ++i) {
        result.push_back(products[static_cast<std::int64_t>(i)].item<double>());
      }
    }
    return result;
  }

  void search(const at::Tensor& update, Tokens& guess, const std::vector<std::size_t>& places,
              std::size_t sweeps) const {
    if (const auto labels = run_.experiment().task().labels().size(); labels > 1) {
      std::vector<Tokens> candidates(labels, guess);
      for (std::size_t i = 0; i < labels; ++i) candidates[i].label = static_cast<std::int32_t>(i);
      const auto scores = likeness(update, candidates);
      guess.label = static_cast<std::int32_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
    }
    double best = likeness(update, {guess}).front();
    for (std::size_t sweep = 0; sweep < sweeps; ++sweep) {
      std::vector<Tokens> candidates;
      for (std::size_t i = 0; i < places.size(); ++i) {
        for (std::size_t j = i + 1; j < places.size(); ++j) {
          Tokens swapped = guess;
          std::swap(swapped.ids[places[i]], swapped.ids[places[j]]);
          if (swapped.ids == guess.ids) continue;
          candidates.push_back(std::move(swapped));
        }
      }
      if (candidates.empty()) return;
      const auto scores = likeness(update, candidates);
      const auto top = static_cast<std::size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
      if (scores[top] <= best) return;
      best = scores[top];
      guess = candidates[top];
    }
  }

  const AuditedRun& run_;
  const ParamSpec& table_;
  bool plain_sgd_;
  TrainerInput trainer_;
  mutable ExampleGradients pass_;
};

Tokens text_of(const EncodedDataset& encoded, std::uint32_t row, bool labelled) {
  Tokens result;
  for (const std::int32_t id : encoded.ids(row)) result.ids.push_back(id);
  if (labelled) result.label = encoded.label(row);
  return result;
}

std::string words_of(const Tokenizer& tokenizer, const Tokens& tokens) {
  const std::vector<std::int32_t> ids(tokens.ids.begin(), tokens.ids.end());
  return tokenizer.decode(ids);
}

// Special tokens are known to everybody.
std::vector<std::int64_t> without_special(const Tokenizer& tokenizer, const Tokens& tokens) {
  std::vector<std::int64_t> result;
  for (const std::int64_t id : tokens.ids) {
    if (!tokenizer.is_special(static_cast<std::int32_t>(id))) result.push_back(id);
  }
  return result;
}

void add(TokenRecovery& mean, const TokenRecovery& one, double count) {
  mean.recall += one.recall / count;
  mean.precision += one.precision / count;
  mean.rouge_l += one.rouge_l / count;
}

}  // namespace

LeakageReport audit_leakage(const AuditedRun& run, const SeenUpdates& updates, const LeakageOptions& options) {
  const Experiment& experiment = run.experiment();
  const Formulation kind = experiment.data().formulation();
  if (kind != Formulation::kTextClassification && kind != Formulation::kLanguageModel) {
    throw ConfigError("leakage: texts are reconstructed for text classification and language models only");
  }
  const ParamSpec* table = word_table(experiment.model());
  if (table == nullptr) {
    throw ConfigError(
        "leakage: the word table does not train in this run, so its rows do not give words away; attack a run with "
        "tuning: full");
  }
  std::vector<std::uint32_t> examples(experiment.partition().train.ids().begin(),
                                      experiment.partition().train.ids().end());
  RandomStream({.seed = static_cast<std::uint64_t>(run.config().seed), .purpose = "leakage audit"})
      .shuffle(std::span(examples));
  const Reconstruction attack(run, *table);
  const Tokenizer& tokenizer = experiment.tokenizer();
  struct Target {
    std::uint32_t example;
    Tokens text;
  };
  std::vector<Target> targets;
  for (const std::uint32_t example : examples) {
    if (targets.size() == options.texts) break;
    const auto [begin, end] = experiment.train()->rows_of(example);
    if (end != begin + 1) continue;
    Tokens text = text_of(*experiment.train(), begin, kind == Formulation::kTextClassification);
    const std::size_t words = without_special(tokenizer, text).size();
    if (words >= 3 && words <= 48) targets.push_back({example, std::move(text)});
  }
  LeakageReport report;
  report.texts = targets.size();
  for (const Target& target : targets) {
    const auto truth = without_special(tokenizer, target.text);
    const auto guess_from = [&](const at::Tensor& update) {
      return attack.attack(update, target.text, options.sweeps);
    };
    const SeenUpdates::Training training{0, std::span(&target.example, 1), true};
    const Tokens plain = guess_from(updates.plain(training)), seen = guess_from(updates.seen(training));
    const auto count = static_cast<double>(targets.size());
    add(report.plain, token_recovery(truth, without_special(tokenizer, plain)), count);
    add(report.seen, token_recovery(truth, without_special(tokenizer, seen)), count);
    if (!report.example.empty()) continue;
    report.example = words_of(tokenizer, target.text);
    report.plain_example = words_of(tokenizer, plain);
    report.seen_example = words_of(tokenizer, seen);
  }
  return report;
}

}  // namespace chorus::inline audits
