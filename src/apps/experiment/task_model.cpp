#include "apps/experiment/task_model.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "application/models/pretrained.h"
#include "application/peft/adapter_folder.h"
#include "application/tasks/task_file.h"
#include "application/text/hugging_face.h"
#include "apps/experiment/machine.h"
#include "core/base/error.h"
#include "core/base/fingerprint.h"
#include "core/console/log.h"

namespace chorus::inline experiment {
namespace {

// Numbers and booleans are written as such in config.json.
nlohmann::json json_value(const std::string& text) {
  const auto parsed = nlohmann::json::parse(text, nullptr, false);
  return parsed.is_discarded() || parsed.is_object() || parsed.is_array() ? nlohmann::json(text) : parsed;
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

std::vector<FilterBlock> blocks_of(const Layout& layout, std::int64_t numbers) {
  std::vector<FilterBlock> blocks;
  if (numbers != layout.trainable_size()) return blocks;
  for (const ParamSpec& spec : layout.specs()) {
    if (spec.trainable) blocks.push_back({spec.offset, spec.shape});
  }
  std::sort(blocks.begin(), blocks.end(),
            [](const FilterBlock& a, const FilterBlock& b) { return a.offset < b.offset; });
  return blocks;
}

// Never 0 when there are frozen values.
std::uint64_t frozen_fingerprint(const Params& params) {
  if (params.frozen().numel() == 0) return 0;
  const at::Tensor here = params.frozen().cpu().contiguous();
  const Fingerprint found = fingerprint({static_cast<const char*>(here.data_ptr()), here.nbytes()});
  return found.low == 0 ? 1 : found.low;
}

}  // namespace

// Here, because reading facts from a peer needs no task.
TaskFacts TaskFacts::of(const Dataset& data) {
  TaskFacts facts;
  facts.formulation = data.formulation();
  facts.labels = TaskInput::of(data, nullptr).labels;
  return facts;
}

ModelConfig fresh_config(const NetworkConfig& network, std::size_t vocabulary) {
  nlohmann::json fields;
  for (const auto& [key, value] : network.fresh) fields[key] = json_value(value);
  if (!fields.contains("vocab_size")) fields["vocab_size"] = vocabulary;
  return ModelConfig::parse(fields.dump(), "model.fresh");
}

TaskModel::TaskModel(const ExperimentConfig& config, const TaskFacts& facts)
    : config_(config), formulation_(facts.formulation) {
  const std::string& folder = config_.model.tokenizer.empty() ? config_.model.from : config_.model.tokenizer;
  tokenizer_ = load_tokenizer(folder);
  TaskInput input{.tokenizer = tokenizer_, .labels = facts.labels};
  if (!config_.model.from.empty()) {
    input.model = read_generation_config(config_.model.from);
  } else {
    input.model = fresh_config(config_.model, tokenizer_->vocabulary_size());
  }
  task_ = config_.task.make(input);
  if (!task_->reads(formulation_)) {
    throw ConfigError(fmt::format("task: {} cannot be done on data for {}; `chorus list task` shows what there is",
                                  config_.task.name(), name_of(formulation_)));
  }
  make_network();
  check_facts(facts);
}

void TaskModel::make_network() {
  const std::shared_ptr<const Tuning> tuning = config_.tuning.make();
  if (!config_.model.freeze.empty() && config_.tuning.name() != "full") {
    throw ConfigError(fmt::format("model.freeze: with tuning: {} the network's own layers are frozen anyway; remove it",
                                  config_.tuning.name()));
  }
  const auto prepare = [&](Model& model) {
    tuning->attach(model, {});
    if (!config_.model.freeze.empty()) model.layout().freeze(frozen_by(config_.model.freeze, model.layers()));
  };
  const at::Device device = device_named(config_.device);
  std::unique_ptr<Model> model;
  std::optional<Params> params;
  if (!config_.model.from.empty()) {
    LoadOptions options;
    options.head = task_->head();
    if (task_->outputs() > 0) options.labels = task_->head_labels();
    options.same_labels = config_.publics.has_value();  // predictions of several networks are compared by their order
    options.prepare = prepare;
    options.device = device;
    options.seed = seed();
    Pretrained loaded = load_pretrained(config_.model.from, options);
    settle_new_frozen(loaded.report, loaded.params);
    fresh_head_ = loaded.report.initialised;
    model = std::move(loaded.model);
    params.emplace(std::move(loaded.params));
  } else {
    ModelConfig network = fresh_config(config_.model, tokenizer_->vocabulary_size());
    if (task_->outputs() > 0) network.set_labels(task_->head_labels());
    model = make_model(network, task_->head());  // says first if there is no such head, whatever else is missing
    require_known_keys(network);
    prepare(*model);
    const auto elements = static_cast<double>(model->layout().size());
    if (device.is_cpu() && elements * sizeof(float) > available_memory()) {
      throw ConfigError(
          fmt::format("model.fresh: a network of {:.3g} parameters does not fit into this machine's memory", elements));
    }
    params.emplace(model->layout(), Params::Options{.clients = 1, .gradients = false, .device = device});
    params->initialise(seed());
  }
  if (model->layout().trainable_size() == 0) throw ConfigError("model.freeze: nothing is left to train");
  check_cache(*model);
  task_->check_model(*model);
  network_ = std::make_unique<TunedNetwork>(std::move(model), std::move(*params), tuning);
}

void TaskModel::check_cache(const Model& model) const {
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

void TaskModel::check_facts(const TaskFacts& facts) const {
  if (facts.tokenizer != 0 && facts.tokenizer != tokenizer_->fingerprint()) {
    throw DataError("model: the tokenizer is not the server's; use the folder that the server uses");
  }
  if (facts.layout != 0 && facts.layout != layout()) {
    throw DataError(
        "model: the network is not the server's, its parameters have other names or shapes; use the server's model "
        "and tuning");
  }
  if (facts.frozen != 0 && facts.frozen != frozen_fingerprint(params())) {
    throw DataError(
        "model: the parameters that do not train have other values than the server's; use the folder that the server "
        "uses");
  }
}

TaskFacts TaskModel::facts() const {
  TaskFacts facts;
  facts.formulation = formulation_;
  facts.labels = task_->labels();
  facts.tokenizer = tokenizer_->fingerprint();
  facts.layout = layout();
  facts.frozen = frozen_fingerprint(params());
  return facts;
}

FilterEndInput TaskModel::filters() const {
  const Layout& layout = model().layout();
  FilterEndInput input;
  input.config = config_.compression;
  input.seed = seed();
  input.blocks = [&layout](std::int64_t numbers) { return blocks_of(layout, numbers); };
  input.variants = network_.get();
  input.reference = params().values()[0];
  input.device = device();
  input.most_elements = std::max(input.most_elements, static_cast<std::size_t>(layout.size()));
  return input;
}

void TaskModel::save(const std::filesystem::path& folder, const at::Tensor& values, const Variant& variant) const {
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
  const std::filesystem::path adapter = tuning.merges() ? folder / "adapter" : folder;
  save_adapter(adapter, {part.model, params, tuning, exact, config_.model.from, fresh_head_});
  if (adapter != folder) save_task(adapter, config_.task);
}

}  // namespace chorus::inline experiment
