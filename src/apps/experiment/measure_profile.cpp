#include "apps/experiment/measure_profile.h"

#include <fmt/format.h>
#include <torch/cuda.h>
#include <torch/types.h>

#include <algorithm>
#include <array>

#include "application/data/dataset_builder.h"
#include "application/models/activation_cache.h"
#include "application/models/pretrained.h"
#include "application/peft/tuning.h"
#include "application/tasks/encode_split.h"
#include "application/text/hugging_face.h"
#include "application/trainer/cohort_trainer.h"
#include "apps/experiment/machine.h"
#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/config/config.h"
#include "core/device/torch_runtime.h"

namespace chorus::inline experiment {
namespace {

constexpr int kAdapterWidth = 32;  // Cai et al. 2023, Table 1

/// Two labels, and distinct texts longer than any row.
Dataset long_texts(std::int64_t rows, std::int64_t tokens) {
  DatasetBuilder builder({.formulation = Formulation::kTextClassification});
  Record record;
  for (std::int64_t row = 0; row < std::max<std::int64_t>(rows, 2); ++row) {
    RandomStream stream({.seed = 0, .purpose = "profile", .client = static_cast<std::uint64_t>(row)});
    record.text.clear();
    for (std::int64_t i = 0; i < tokens; ++i) record.text += stream.below(2) == 0 ? "the " : "a ";
    record.label = row % 2 == 0 ? "yes" : "no";
    builder.add(record, Split::kTrain);
  }
  return std::move(builder).finish();
}

std::unique_ptr<Task> classifier(const Dataset& data, const std::filesystem::path& model, std::int64_t length) {
  const TaskInput input = TaskInput::of(data, load_tokenizer(model.string()));
  Choice<Tasks> task("text_classification");
  ConfigDocument::parse(fmt::format("{{max_length: {}}}", length), "profile").fill([&](ConfigVisitor& visitor) {
    task.describe(visitor);
  });
  return task.make(input);
}

/// Freezes the model for this way of training at this depth. The embeddings train with the lowest layer.
void prepare(Model& model, const TuningWay& way, std::int64_t depth) {
  if (way.method == TuningWay::Method::kAdapter) {
    Choice<Tunings>("pfeiffer").make()->attach(model, {static_cast<int>(depth), kAdapterWidth});
    return;
  }
  const std::int64_t lowest = depth == model.layers() ? kEmbeddingLayer : model.layers() - depth;
  model.layout().freeze([lowest](const ParamSpec& spec) { return spec.layer < lowest; });
}

std::vector<std::int64_t> wanted_depths(std::vector<std::int64_t> depths, std::int64_t layers) {
  if (depths.empty()) {
    for (std::int64_t depth = 0; depth <= layers; ++depth) depths.push_back(depth);
  }
  std::sort(depths.begin(), depths.end());
  depths.erase(std::unique(depths.begin(), depths.end()), depths.end());
  if (depths.front() < 0 || depths.back() > layers) {
    throw ConfigError(fmt::format("depth {}: the model has {} layers, so depths are 0 to {}",
                                  depths.front() < 0 ? depths.front() : depths.back(), layers, layers));
  }
  return depths;
}

}  // namespace

DeviceProfile measure_profile(const MeasureProfileRequest& request) {
  const Dataset data = long_texts(request.batch_size, request.length);
  const auto task = classifier(data, request.model, request.length);
  const auto encoded = encode_split(*task, data, Split::kTrain, {.cache = "none"}).data;
  std::vector<TrainClient> clients{{0, task->client_data(encoded, data.split(Split::kTrain)), 1}};
  for (const std::uint32_t row : clients[0].data.rows) {
    check(encoded->length(row) == static_cast<std::size_t>(request.length), "a row of another length");
  }
  LoadOptions load;
  load.head = task->head();
  load.labels = task->labels();
  if (request.device != "cpu") {
    if (!torch::cuda::is_available()) throw ConfigError("device: this machine has no usable GPU");
    load.device = {at::kCUDA, 0};
  }
  TrainerConfig config;
  config.batch_size = request.batch_size;
  config.steps = request.batches;
  const TorchThreads all(0);

  DeviceProfile profile;
  profile.name = request.name;
  profile.batch_size = request.batch_size;
  profile.sequence_length = request.length;
  {
    const Pretrained whole = load_pretrained(request.model, load);
    task->check_model(*whole.model);
    profile.layers = whole.model->layers();
    profile.model = whole.model->config().model_type();
  }
  const std::vector<std::int64_t> depths = wanted_depths(request.depths, profile.layers);
  for (const TuningWay& way : request.ways) {
    DepthTable& table = profile.table(way);
    for (const std::int64_t depth : depths) {
      forget_peak_memory();
      load.prepare = [&](Model& model) { prepare(model, way, depth); };
      const Pretrained loaded = load_pretrained(request.model, load);
      settle_new_frozen(loaded.report, loaded.params);
      ActivationCache cache(
          {.mode = way.cached ? ActivationCache::Mode::kKeep : ActivationCache::Mode::kOff, .disk = 0});
      const CohortTrainer trainer({*task, *loaded.model, loaded.params, &cache}, config);
      std::array<double, 3> seconds{};
      trainer.train(clients, loaded.params.values()[0], {.seed = 1}, {}, {});  // warms up, and fills the cache
      for (double& repetition : seconds) {
        const TrainResult result = trainer.train(clients, loaded.params.values()[0], {.seed = 1}, {}, {});
        repetition = result.seconds / result.batches[0];
      }
      std::sort(seconds.begin(), seconds.end());
      const double memory = load.device.is_cpu() ? peak_memory() : 0;
      table.depths.push_back(depth);
      table.seconds.push_back(seconds[1]);
      if (memory > 0) table.memory.push_back(memory / 1e9);
      if (request.report) request.report(way, depth, seconds[1]);
    }
  }
  return profile;
}

}  // namespace chorus::inline experiment
