#include "apps/experiment/experiment.h"

#include <fmt/format.h>
#include <torch/cuda.h>

#include <algorithm>
#include <charconv>
#include <future>
#include <nlohmann/json.hpp>
#include <set>

#include "application/data/partition/dataset_population.h"
#include "application/data/partition/partition_file.h"
#include "application/data/readers/open_dataset.h"
#include "application/models/kernel_values.h"
#include "application/models/pretrained.h"
#include "application/peft/adapter_folder.h"
#include "application/tasks/task_file.h"
#include "application/text/hugging_face.h"
#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/console/log.h"
#include "core/files/cache_folder.h"
#include "core/files/checked_file.h"

namespace chorus::inline experiment {
namespace {

at::Device device_of(const std::string& name) {
  if (name == "cpu") return at::kCPU;
  if (!torch::cuda::is_available()) {
    throw ConfigError("device: cuda, but this machine has no usable GPU, or LibTorch was built without CUDA");
  }
  return {at::kCUDA, 0};
}

// Numbers and booleans are written as such in config.json.
nlohmann::json json_value(const std::string& text) {
  const auto parsed = nlohmann::json::parse(text, nullptr, false);
  return parsed.is_discarded() || parsed.is_object() || parsed.is_array() ? nlohmann::json(text) : parsed;
}

ModelConfig fresh_config(const NetworkConfig& network, std::size_t vocabulary) {
  nlohmann::json json;
  for (const auto& [key, value] : network.fresh) json[key] = json_value(value);
  if (!json.contains("vocab_size")) json["vocab_size"] = vocabulary;
  return ModelConfig::parse(json.dump(), "model.fresh");
}

// What to compile before the data is read. An error in the model's configuration is reported where it is loaded.
KernelValues values_for(const ExperimentConfig& config, at::Device device) {
  if (!device.is_cuda() || config.federation.kernels != FederationConfig::Kernels::kFast) return {};
  const std::filesystem::path folder = cache_folder(config.encoding.cache);
  if (!folder.empty()) {
    const auto path = [folder](const std::string& key) { return folder / "kernels" / key; };
    set_kernel_store({[path](const std::string& key) { return read_checked(path(key)); },
                      [path](const std::string& key, std::string_view image) { write_checked(path(key), image); }});
  }
  try {
    const bool mixed = config.trainer.precision == TrainerConfig::Precision::kBFloat16;
    const ModelConfig network = config.model.from.empty()
                                    ? fresh_config(config.model, 1)
                                    : ModelConfig::read(std::filesystem::path(config.model.from) / "config.json");
    return kernel_values(network, mixed);
  } catch (const Error&) {
    return {};
  }
}

std::function<bool(const ParamSpec&)> frozen_by(const std::vector<std::string>& names, int count) {
  std::set<int> layers;
  for (const std::string& name : names) {
    if (name == "embeddings" || name == "e") {
      layers.insert(kEmbeddingLayer);
      continue;
    }
    int layer = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
    if (error != std::errc() || end != name.data() + name.size() || layer < 0) {
      throw ConfigError(fmt::format("model.freeze: \"{}\" is neither \"embeddings\" nor the number of a layer", name));
    }
    if (layer >= count) {
      throw ConfigError(
          fmt::format("model.freeze: there is no layer {}; the network's layers are 0 to {}", name, count - 1));
    }
    layers.insert(layer);
  }
  return [layers](const ParamSpec& spec) { return layers.contains(spec.layer); };
}

ClientLists pooled(const ClientLists& lists) {
  ClientLists result;
  std::vector<ExampleId> all(lists.ids().begin(), lists.ids().end());
  std::sort(all.begin(), all.end());
  result.append(all);
  return result;
}

}  // namespace

Experiment::Experiment(const ExperimentConfig& config)
    : config_(config),
      device_(device_of(config.device)),
      warm_up_(device_, values_for(config, device_)),
      data_(open_dataset(config.data)) {
  const std::string& folder = config_.model.tokenizer.empty() ? config_.model.from : config_.model.tokenizer;
  tokenizer_ = load_tokenizer(folder);
  TaskInput input = TaskInput::of(data_, tokenizer_);
  if (!config_.model.from.empty()) {
    input.model = read_generation_config(config_.model.from);
  } else {
    input.model = fresh_config(config_.model, tokenizer_->vocabulary_size());
  }
  task_ = config_.task.make(input);
  if (!task_->reads(data_.formulation())) {
    throw ConfigError(fmt::format("task: {} cannot be done on data for {}; `chorus list task` shows what there is",
                                  config_.task.name(), name_of(data_.formulation())));
  }
  std::future<void> network = std::async(std::launch::async, [this] { make_network(); });
  make_partition();
  train_ = encode_split(*task_, data_, Split::kTrain, config_.encoding).data;
  test_ = held_out_ ? train_ : encode_split(*task_, data_, Split::kTest, config_.encoding).data;
  network.get();
  make_phases();
  choose_test();
}

void Experiment::make_network() {
  const std::shared_ptr<const Tuning> tuning = config_.tuning.make();
  if (!config_.model.freeze.empty() && config_.tuning.name() != "full") {
    throw ConfigError(fmt::format("model.freeze: with tuning: {} the network's own layers are frozen anyway; remove it",
                                  config_.tuning.name()));
  }
  const auto prepare = [&](Model& model) {
    tuning->attach(model, {});
    if (!config_.model.freeze.empty()) model.layout().freeze(frozen_by(config_.model.freeze, model.layers()));
  };
  const auto seed = static_cast<std::uint64_t>(config_.seed);
  std::unique_ptr<Model> model;
  std::optional<Params> params;
  if (!config_.model.from.empty()) {
    LoadOptions options;
    options.head = task_->head();
    if (task_->outputs() > 0) options.labels = task_->head_labels();
    options.prepare = prepare;
    options.device = device_;
    options.seed = seed;
    Pretrained loaded = load_pretrained(config_.model.from, options);
    settle_new_frozen(loaded.report, loaded.params);
    fresh_head_ = loaded.report.initialised;
    if (!fresh_head_.empty()) {
      Log("model").info("{} has no such head: {} start from random values", config_.model.from,
                        fmt::join(fresh_head_, ", "));
    }
    model = std::move(loaded.model);
    params.emplace(std::move(loaded.params));
  } else {
    ModelConfig network = fresh_config(config_.model, tokenizer_->vocabulary_size());
    if (task_->outputs() > 0) network.set_labels(task_->head_labels());
    model = make_model(network, task_->head());
    prepare(*model);
    params.emplace(model->layout(), Params::Options{.clients = 1, .gradients = false, .device = device_});
    params->initialise(seed);
  }
  if (model->layout().trainable_size() == 0) throw ConfigError("model.freeze: nothing is left to train");
  check_cache(*model);
  task_->check_model(*model);
  network_ = std::make_unique<TunedNetwork>(std::move(model), std::move(*params), tuning);
}

void Experiment::check_cache(const Model& model) const {
  if (config_.trainer.cache.mode == ActivationCache::Mode::kOff) return;
  if (task_->rows_change()) {
    throw ConfigError(fmt::format("trainer.cache: the task {} reads other tokens each time, so nothing can be reused",
                                  config_.task.name()));
  }
  if (frozen_layers(model) == 0 && config_.tuning.name() == "full") {
    throw ConfigError(
        "trainer.cache: the bottom of the network trains, so there is nothing to reuse; give tuning.depth fewer layers "
        "than the model has");
  }
}

void Experiment::make_partition() {
  const ClientsConfig& clients = config_.clients;
  const auto seed = static_cast<std::uint64_t>(clients.seed.value_or(config_.seed));
  if (!clients.file.empty()) {
    partition_ = read_partition(clients.file, clients.group);
    check_against_data(partition_, data_.size(), clients.file + ", " + partition_.info.group);
  } else {
    const DatasetPopulation population(data_, seed);
    const PartitionRequest request{static_cast<std::size_t>(clients.count), seed, clients.test_mix};
    partition_ = clients.partition.make()->make(population.view(), request);
  }
  if (config_.continual) {
    make_segments();
  } else if (data_.split(Split::kTest).empty() && partition_.test.total() == 0) {
    if (clients.test_latest && data_.times().empty()) {
      throw ConfigError("clients.test_latest: the data says nothing about time");
    }
    hold_out(partition_, clients.test_share, clients.test_latest ? data_.times() : std::span<const std::int64_t>{},
             seed);
  }
  // A partition may also have been written with its test examples taken from the training split.
  const auto splits = data_.splits();
  const auto in_train = [&](ExampleId id) { return splits[id] == Split::kTrain; };
  const auto ids = partition_.test.ids();
  held_out_ = !ids.empty() && std::all_of(ids.begin(), ids.end(), in_train);
  if (!held_out_ && std::any_of(ids.begin(), ids.end(), in_train)) {
    throw DataError("clients: the partition tests on examples of both the training and the test split");
  }
  const auto training = partition_.train.ids();
  if (!std::all_of(training.begin(), training.end(), in_train)) {
    throw DataError(
        "clients: the partition trains on examples that are not in the training split; is it of other data?");
  }
  if (training.empty()) throw DataError("clients: the partition has no training examples");
  if (const std::string warning = empty_clients_warning(partition_); !warning.empty()) {
    Log("clients").warning("{}", warning);
  }
}

void Experiment::make_segments() {
  TimeSegments segments = time_segments(partition_, data_.times(), config_.continual->segments);
  partition_.train = segments.united();
  partition_.test = segments.test;
  if (config_.continual->one_shot) {
    const auto count = static_cast<std::int64_t>(segments.train.size());
    phases_.push_back({"all segments at once", partition_.train, count * config_.rounds});
    return;
  }
  for (std::size_t i = 0; i < segments.train.size(); ++i) {
    const auto [first, behind] = segments.bounds[i];
    phases_.push_back(
        {fmt::format("{} to {}", time_text(first), time_text(behind)), std::move(segments.train[i]), config_.rounds});
  }
}

void Experiment::make_phases() {
  if (phases_.empty()) phases_.push_back({"", partition_.train, config_.rounds});
  client_tests_ = partition_.test;
  if (config_.algorithm.traits().pooled) {
    for (Phase& phase : phases_) phase.train = pooled(phase.train);
    client_tests_ = pooled(client_tests_);
  }
}

void Experiment::choose_test() {
  // The whole test split, also when the partition deals out only a part of it; else what was held out.
  const auto held = partition_.test.ids();
  const auto split = data_.split(Split::kTest);
  if (held_out_ || config_.continual) {
    shared_test_.assign(held.begin(), held.end());
  } else {
    shared_test_.assign(split.begin(), split.end());
  }
  if (const auto most = static_cast<std::size_t>(config_.evaluation.examples); most > 0 && most < shared_test_.size()) {
    RandomStream stream({.seed = static_cast<std::uint64_t>(config_.seed), .purpose = "test subset"});
    stream.shuffle(std::span(shared_test_));
    shared_test_.resize(most);
  }
  std::sort(shared_test_.begin(), shared_test_.end());
  if (shared_test_.empty()) {
    throw ConfigError("there is nothing to test on: give data.test, or clients.test_share to hold examples out");
  }
}

std::string Experiment::description() const {
  const Layout& layout = model().layout();
  return fmt::format(
      "{} clients with {} training examples, {} test examples; {} with {:.2f} M of {:.2f} M parameters "
      "trained",
      phases_.front().train.clients(), partition_.train.total(), shared_test_.size(), model().config().model_type(),
      static_cast<double>(layout.trainable_size()) / 1e6, static_cast<double>(layout.size()) / 1e6);
}

void Experiment::save_model(const std::filesystem::path& folder, const at::Tensor& values,
                            const Variant& variant) const {
  const TunedNetwork::Part part = network_->part(variant);
  Params params = Params::copies_of(part.params, 1, false);
  params.values().copy_(network_->take(variant, values).unsqueeze(0));
  SaveOptions options;
  if (config_.model.tokenizer.empty()) options.like = config_.model.from;
  const Tuning& tuning = network_->tuning();
  const auto& specs = part.model.layout().specs();
  const bool attached = std::any_of(specs.begin(), specs.end(), [](const ParamSpec& spec) { return spec.attached; });
  if (attached && tuning.merges()) {
    const PlainNetwork plain = merged(part.model, params, tuning);
    save_pretrained(folder, *plain.model, plain.params, options);
  } else {
    save_pretrained(folder, part.model, params, options);
  }
  if (!config_.model.tokenizer.empty()) save_tokenizer(*tokenizer_, folder.string());
  save_task(folder, config_.task);
  if (!attached) return;
  const Variant whole = network_->whole();
  const Variant exact{variant.depth < 0 ? whole.depth : variant.depth, variant.width < 0 ? whole.width : variant.width};
  save_adapter(tuning.merges() ? folder / "adapter" : folder,
               {part.model, params, tuning, exact, config_.model.from, fresh_head_});
}

}  // namespace chorus::inline experiment
