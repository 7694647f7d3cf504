#include "apps/experiment/distillation_compatibility.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "algorithm/distillation/fedid.h"
#include "algorithm/distillation/teaching.h"
#include "apps/experiment/choice_setting.h"

namespace chorus::inline experiment {
namespace {

// Filters for predictions in a direction in which none travel.
std::string filter_mistake(const FilterList& filters, const char* direction, bool predictions,
                           const std::string& algorithm) {
  for (const Choice<Filters>& filter : filters) {
    if (predictions || filter.make()->answer_size() == 0) continue;
    return fmt::format(
        "compression.{}: {} is for predictions, and algorithm: {} sends none in this direction; leave it out",
        direction, filter.name(), algorithm);
  }
  return "";
}

// Error feedback adds what was lost of the last predictions, which were of other texts or of an older model.
std::string feedback_mistake(const FilterList& filters, const char* direction, const std::string& algorithm) {
  for (const Choice<Filters>& filter : filters) {
    if (!filter.make()->feedback()) continue;
    return fmt::format(
        "compression.{}: {} with error feedback would add what it left out of older predictions to those of algorithm: "
        "{}; {}use fp16, uniform or top_answers",
        direction, filter.name(), algorithm,
        setting_of(filter, "error_feedback") ? "set its error_feedback: false, or " : "");
  }
  return "";
}

// Settings that the data of a task gives no meaning to. Of tasks that others have added nothing is known here.
std::string task_mistake(const ExperimentConfig& config) {
  const std::string& task = config.task.name();
  const auto is_one_of = [&](std::initializer_list<const char*> names) {
    return std::any_of(names.begin(), names.end(), [&](const char* name) { return task == name; });
  };
  if (const double share = number_of(config.algorithm, "text_loss");
      share > 0 && is_one_of({"text_classification", "pair_classification", "pair_regression", "seq_tagging",
                              "span_extraction", "seq2seq"})) {
    return no_text_loss(share);
  }
  if (task == "pair_regression" && config.algorithm.name() == "fedid") {
    const std::string feedback = text_of(config.algorithm, "feedback");
    const bool published = text_of(config.algorithm, "preset") == "as_published";
    if (feedback == "difference" || (feedback.empty() && published)) return kNoDifferenceOfScores;
  }
  return "";
}

}  // namespace

std::string distillation_mistake(const ExperimentConfig& config) {
  const AlgorithmTraits& algorithm = config.algorithm.traits();
  const std::string& name = config.algorithm.name();
  if (algorithm.distills && !config.publics) {
    return fmt::format(
        "algorithm: {} learns from predictions on a public set; give `public` (`public: {{}}` splits it "
        "off the training data)",
        name);
  }
  if (algorithm.distills && config.trainer.privacy) {
    return fmt::format(
        "trainer.privacy: DP-SGD protects steps on a client's own examples only, and algorithm: {} also learns from "
        "predictions, which would leave without noise; leave it out and use noise on the predictions: aggregation: "
        "private_mean, or compression: {{up: [local_gaussian]}}, with ds_fl, mhat, fedkd, fedmd, cronus or feded",
        name);
  }
  if (algorithm.any_network && config.selection.name() == "power_of_choice") {
    return fmt::format(
        "selection: power_of_choice sends the server's weights to every candidate, but clients of algorithm: {} have "
        "models of their own; use selection: uniform",
        name);
  }
  for (const auto& [filters, direction, predictions] :
       {std::tuple(&config.compression.up, "up", algorithm.predictions_up),
        std::tuple(&config.compression.down, "down", algorithm.predictions_down)}) {
    if (const std::string mistake = filter_mistake(*filters, direction, predictions, name); !mistake.empty()) {
      return mistake;
    }
    if (!predictions) continue;
    if (const std::string mistake = feedback_mistake(*filters, direction, name); !mistake.empty()) return mistake;
  }
  if (!config.clients.models.empty() && !algorithm.any_network) {
    return fmt::format(
        "clients.models: algorithm: {} exchanges weights, so all clients have the server's network; use "
        "fedid, calibrated, ds_fl, mhat, fedkd, fedmd or cronus",
        name);
  }
  if (!config.clients.models.empty() && config.trainer.cache.mode != ActivationCache::Mode::kOff) {
    return "trainer.cache: networks of `clients.models` cannot share one cache of activations; leave it out";
  }
  if (!config.publics) return "";
  if (config.algorithm.make()->queries() && config.publics->query.empty() && config.publics->queries() <= 0) {
    return fmt::format(
        "public.query_share: algorithm: {} needs labelled examples at the server; set it above 0, or "
        "give public.query",
        name);
  }
  if (number_of(config.algorithm, "transfer_epochs") > 0 && !config.publics->labelled) {
    return "algorithm.transfer_epochs: clients learn the labels of the public set first, which has none; set "
           "public.labelled: true, or transfer_epochs: 0";
  }
  if (config.trainer.cache.mode != ActivationCache::Mode::kOff &&
      !(config.publics->unlabelled.empty() && config.publics->query.empty())) {
    return "trainer.cache: it is keyed by example of the training data, so a public set from other files cannot use "
           "it; "
           "leave one of them out";
  }
  if (const std::string mistake = task_mistake(config); !mistake.empty()) return mistake;
  if (config.continual) return "public: segments of time share no public set; leave out `continual`";
  return "";
}

}  // namespace chorus::inline experiment
