#include "apps/experiment/measure_profile.h"

#include <fmt/format.h>
#include <torch/cuda.h>
#include <torch/types.h>

#include <algorithm>
#include <array>

#include "application/data/dataset_builder.h"
#include "application/models/pretrained.h"
#include "application/tasks/encode_split.h"
#include "application/text/hugging_face.h"
#include "application/trainer/cohort_trainer.h"
#include "apps/experiment/machine.h"
#include "core/config.h"
#include "core/error.h"
#include "core/torch_runtime.h"

namespace chorus {
namespace {

/// Two labels, and texts that are longer than any row.
Dataset long_texts(std::int64_t rows, std::int64_t tokens) {
  DatasetBuilder builder({.formulation = Formulation::kTextClassification});
  Record record;
  for (std::int64_t i = 0; i < tokens; ++i) record.text += i % 2 == 0 ? "the " : "a ";
  for (std::int64_t row = 0; row < std::max<std::int64_t>(rows, 2); ++row) {
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
  const auto trained_from = [&](std::int64_t lowest) {
    load.prepare = [lowest](Model& model) {
      model.layout().freeze([lowest](const ParamSpec& spec) { return spec.layer < lowest; });
    };
    return load_pretrained(request.model, load);
  };
  {
    const Pretrained whole = trained_from(kEmbeddingLayer);
    task->check_model(*whole.model);
    profile.layers = whole.model->layers();
    profile.model = whole.model->config().model_type();
  }
  // Adapter rows are measured here as well, once a trainer can have them: the same loop, with modules in the top
  // `depth` layers instead of `trained_from`.
  for (const std::int64_t depth : wanted_depths(request.depths, profile.layers)) {
    forget_peak_memory();
    const Pretrained loaded = trained_from(depth == profile.layers ? kEmbeddingLayer : profile.layers - depth);
    const CohortTrainer trainer({*task, *loaded.model, loaded.params}, config);
    std::array<double, 3> seconds{};
    trainer.train(clients, loaded.params.values()[0], {.seed = 1}, {}, {});  // warms up
    for (double& repetition : seconds) {
      const TrainResult result = trainer.train(clients, loaded.params.values()[0], {.seed = 1}, {}, {});
      repetition = result.seconds / result.batches[0];
    }
    std::sort(seconds.begin(), seconds.end());
    const double memory = load.device.is_cpu() ? peak_memory() : 0;
    profile.full.depths.push_back(depth);
    profile.full.seconds.push_back(seconds[1]);
    if (memory > 0) profile.full.memory.push_back(memory / 1e9);
    if (request.tell) request.tell(depth, seconds[1], memory);
  }
  return profile;
}

}  // namespace chorus
