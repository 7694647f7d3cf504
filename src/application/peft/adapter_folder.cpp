#include "application/peft/adapter_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "application/peft/adapters.h"
#include "application/peft/lora.h"
#include "application/peft/module_pattern.h"
#include "application/peft/prefix.h"
#include "core/base/error.h"
#include "core/files/files.h"
#include "core/files/safetensors.h"
#include "core/tensor/named_tensors.h"

namespace chorus::inline peft {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kConfig = "adapter_config.json";
constexpr const char* kWeights = "adapter_model.safetensors";
constexpr std::string_view kModulePrefix = "base_model.model.";
constexpr const char* kLabels = "chorus.labels";  // metadata of the weights: PEFT does not store label names

// The module of a head's parameter: "bert.pooler.dense.weight" belongs to "pooler", "classifier.out_proj.bias" to
// "classifier".
std::string head_module(const ModelFamily& family, const std::string& name) {
  const std::string own = name.starts_with(family.body_prefix) ? name.substr(family.body_prefix.size()) : name;
  return own.substr(0, own.find('.'));
}

bool travels(const ParamSpec& spec, const AdapterSave& what) {
  if (spec.attached || spec.trainable) return true;
  return std::find(what.fresh_head.begin(), what.fresh_head.end(), spec.name) != what.fresh_head.end();
}

using OrderedJson = nlohmann::ordered_json;  // patterns are tried in the order of the file

OrderedJson read_config(const fs::path& folder) {
  const fs::path file = folder / kConfig;
  const OrderedJson config = OrderedJson::parse(read_file(file), nullptr, false);
  if (!config.is_object()) throw DataError(file.string() + ": is not a JSON object");
  return config;
}

template <typename T>
T value_of(const OrderedJson& config, const char* key, T fallback, const fs::path& folder) {
  if (!config.contains(key) || config[key].is_null()) return fallback;
  try {
    return config[key].get<T>();
  } catch (const json::exception&) {
    throw DataError(fmt::format("{}: \"{}\" has a value of the wrong kind", (folder / kConfig).string(), key));
  }
}

std::optional<std::int64_t> depth_in(const OrderedJson& config, const fs::path& folder) {
  const auto depth = value_of<std::int64_t>(config, "depth", -1, folder);
  return depth >= 0 ? std::optional(depth) : std::nullopt;
}

// "rank_pattern" or "alpha_pattern": a regular expression for module names to a positive number.
template <typename T>
std::vector<std::pair<std::string, T>> patterns_of(const OrderedJson& config, const char* key, const fs::path& folder) {
  std::vector<std::pair<std::string, T>> result;
  if (!config.contains(key) || config[key].is_null()) return result;
  const auto wrong = [&](const std::string& why) {
    return DataError(fmt::format("{}: \"{}\" {}", (folder / kConfig).string(), key, why));
  };
  if (!config[key].is_object()) throw wrong("must map module names to numbers");
  for (const auto& [pattern, value] : config[key].items()) {
    if (!value.is_number() || !(value.template get<double>() > 0))
      throw wrong("must map module names to positive numbers");
    if (!is_module_pattern(pattern)) {
      throw wrong(fmt::format("has the key \"{}\", which is not a regular expression", pattern));
    }
    result.emplace_back(pattern, value.template get<T>());
  }
  return result;
}

std::unique_ptr<Tuning> lora_of(const OrderedJson& config, const fs::path& folder) {
  LoraConfig lora;
  lora.rank = value_of<std::int64_t>(config, "r", 8, folder);
  lora.alpha = value_of<double>(config, "lora_alpha", static_cast<double>(lora.rank), folder);
  lora.rslora = value_of<bool>(config, "use_rslora", false, folder);
  lora.rank_pattern = patterns_of<std::int64_t>(config, "rank_pattern", folder);
  lora.alpha_pattern = patterns_of<double>(config, "alpha_pattern", folder);
  if (value_of<bool>(config, "use_dora", false, folder)) {
    throw DataError(
        fmt::format("{}: \"use_dora\" is on, and Chorus has plain LoRA only; train the adapter without DoRA",
                    (folder / kConfig).string()));
  }
  if (config.contains("target_modules") && config["target_modules"].is_string()) {
    lora.targets = {config["target_modules"].get<std::string>()};
  } else {
    lora.targets = value_of<std::vector<std::string>>(config, "target_modules", {}, folder);
  }
  const auto layers = value_of<std::vector<std::int64_t>>(config, "layers_to_transform", {}, folder);
  if (!layers.empty()) {
    for (std::size_t i = 1; i < layers.size(); ++i) {
      if (layers[i] != layers[i - 1] + 1) {
        throw DataError(fmt::format("{}: Chorus attaches LoRA to the top layers; \"layers_to_transform\" names others",
                                    (folder / kConfig).string()));
      }
    }
    lora.depth = static_cast<std::int64_t>(layers.size());
  }
  if (lora.rank < 1 || !(lora.alpha > 0)) {
    throw DataError(fmt::format("{}: \"r\" and \"lora_alpha\" must be positive", (folder / kConfig).string()));
  }
  return std::make_unique<LoraTuning>(lora);
}

// The head that adapter_config.json names; nullopt: the network's own.
std::optional<Head> head_of(const fs::path& folder) {
  const auto type = value_of<std::string>(read_config(folder), "task_type", "", folder);
  for (const Head head : all_heads()) {
    if (!type.empty() && head->peft_task == type) return head;
  }
  return std::nullopt;
}

// The labels of the adapter's classifier, if it has them or their number differs from the network's in `base`.
std::optional<std::vector<std::string>> labels_of(const fs::path& folder, const fs::path& base, Head head) {
  const ModelConfig config = ModelConfig::read(base / "config.json");
  const SafetensorsFile file = SafetensorsFile::open(folder / kWeights);
  const auto model = make_model(config, head);
  for (const ParamSpec& spec : model->layout().specs()) {
    if (spec.shape.size() != 2 || !trains_in_head(spec, *model, HeadPart::kAnswers)) continue;
    const TensorEntry* entry = file.find(std::string(kModulePrefix) + spec.name);
    if (entry == nullptr || entry->shape.size() != 2 || entry->shape[1] != spec.shape[1]) continue;
    std::vector<std::string> labels;
    if (const auto found = file.metadata().find(kLabels); found != file.metadata().end()) {
      const json names = json::parse(found->second, nullptr, false);
      if (names.is_array() && std::all_of(names.begin(), names.end(), [](const json& n) { return n.is_string(); })) {
        labels = names.get<std::vector<std::string>>();
      }
    }
    if (static_cast<std::int64_t>(labels.size()) == entry->shape[0]) return labels;
    if (entry->shape[0] != spec.shape[0]) return numbered_labels(entry->shape[0]);
  }
  return std::nullopt;
}

}  // namespace

bool has_adapter(const fs::path& folder) { return fs::exists(folder / kConfig); }

void save_adapter(const fs::path& folder, const AdapterSave& what) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) throw DataError(fmt::format("{}: cannot be made: {}", folder.string(), failure.message()));
  json config = json::parse(what.tuning.settings_json(what.model, what.variant));
  config["base_model_name_or_path"] = what.base;
  const Head head = what.model.head();
  const ModelFamily family = family_of(what.model.config());
  config["task_type"] = *head->peft_task != 0 ? json(head->peft_task) : json(nullptr);
  config["inference_mode"] = true;
  std::set<std::string> modules;
  std::vector<NamedTensor> tensors;
  const at::NoGradGuard no_grad;
  const Layout& layout = what.model.layout();
  for (std::size_t i = 0; i < layout.specs().size(); ++i) {
    const ParamSpec& spec = layout.specs()[i];
    if (!travels(spec, what)) continue;
    if (!spec.attached) modules.insert(head_module(family, spec.name));
    tensors.emplace_back(std::string(kModulePrefix) + spec.name,
                         what.params.tensor(ParamId{static_cast<int>(i)}).cpu());
  }
  config["modules_to_save"] = modules.empty() ? json(nullptr) : json(modules);
  std::map<std::string, std::string> metadata{{"format", "pt"}};
  if (head->labelled)
    metadata[kLabels] = json(what.model.config().labels()).dump(-1, ' ', false, json::error_handler_t::replace);
  write_safetensors(folder / kWeights, tensors, metadata);
  write_file(folder / kConfig, config.dump(2) + "\n");
}

std::unique_ptr<Tuning> read_tuning(const fs::path& folder) {
  const OrderedJson config = read_config(folder);
  const auto type = value_of<std::string>(config, "peft_type", "", folder);
  if (type == "LORA") return lora_of(config, folder);
  if (type == "PFEIFFER_ADAPTER" || type == "HOULSBY_ADAPTER") {
    AdapterConfig adapter;
    adapter.width = value_of<std::int64_t>(config, "width", 0, folder);
    adapter.unit = value_of<std::int64_t>(config, "unit", 0, folder);
    adapter.depth = depth_in(config, folder);
    if (adapter.width < 1 || adapter.unit < 0 || (adapter.unit > 0 && adapter.width % adapter.unit != 0)) {
      throw DataError(fmt::format("{}: a width of {} in units of {} makes no adapter", (folder / kConfig).string(),
                                  adapter.width, adapter.unit));
    }
    return std::make_unique<AdapterTuning>(
        type == "PFEIFFER_ADAPTER" ? AdapterTuning::Kind::kPfeiffer : AdapterTuning::Kind::kHoulsby, adapter);
  }
  if (type == "PREFIX_TUNING" && config.contains("depth")) {
    PrefixConfig prefix;
    prefix.length = value_of<std::int64_t>(config, "num_virtual_tokens", 0, folder);
    prefix.depth = depth_in(config, folder);
    if (prefix.length < 1) throw DataError(fmt::format("{}: the prefix is empty", (folder / kConfig).string()));
    return std::make_unique<PrefixTuning>(prefix);
  }
  throw DataError(
      fmt::format("{}: the peft_type \"{}\" is none that Chorus reads (LORA, PFEIFFER_ADAPTER, "
                  "HOULSBY_ADAPTER, and PREFIX_TUNING that Chorus wrote)",
                  (folder / kConfig).string(), type));
}

std::set<std::string> read_adapter(const fs::path& folder, const Params& params) {
  const fs::path file = folder / kWeights;
  const SafetensorsFile source = SafetensorsFile::open(file);
  const Layout& layout = params.layout();
  const at::NoGradGuard no_grad;
  std::set<std::string> seen;
  std::vector<NamedTensor> read;
  const auto foreign = [&](const std::string& what) {
    return DataError(fmt::format("{}: {}; the adapter belongs to another model", file.string(), what));
  };
  for (const TensorEntry& entry : source.entries()) {
    const std::string name =
        entry.name.starts_with(kModulePrefix) ? entry.name.substr(kModulePrefix.size()) : entry.name;
    const auto id = layout.find(name);
    if (!id) throw foreign("the model has no place for " + name);
    if (entry.shape != layout[*id].shape) {
      throw foreign(fmt::format("{} has the shape [{}], the model's is [{}]", name, fmt::join(entry.shape, ", "),
                                fmt::join(layout[*id].shape, ", ")));
    }
    source.read_into(entry, params.tensor(*id));
    read.emplace_back(name, params.tensor(*id));
    seen.insert(layout[*id].name);
  }
  for (const ParamSpec& spec : layout.specs()) {
    if (spec.attached && !seen.contains(spec.name)) throw foreign(spec.name + " is missing");
  }
  if (const auto name = first_non_finite(read)) {
    throw DataError(fmt::format("{}: {} holds NaN or infinity; its training diverged", file.string(), *name));
  }
  return seen;
}

Pretrained load_tuned(const fs::path& folder, LoadOptions options, const fs::path& adapter) {
  const fs::path from = adapter.empty() ? folder : adapter;
  if (!adapter.empty() && !has_adapter(adapter)) {
    throw DataError(fmt::format("{}: there is no {}", adapter.string(), kConfig));
  }
  if (!has_adapter(from)) return load_pretrained(folder, options);
  const std::unique_ptr<Tuning> tuning = read_tuning(from);
  if (!options.head) options.head = head_of(from);
  if (!options.labels && options.head) options.labels = labels_of(from, folder, *options.head);
  options.prepare = [&](Model& model) { tuning->attach(model, {}); };
  options.quiet = true;  // the adapter may have what the folder lacks
  Pretrained loaded = load_pretrained(folder, options);
  const std::set<std::string> read = read_adapter(from, loaded.params);
  std::vector<std::string>& fresh = loaded.report.initialised;
  fresh.erase(std::remove_if(fresh.begin(), fresh.end(), [&](const std::string& name) { return read.contains(name); }),
              fresh.end());
  if (!fresh.empty() && loaded.model->head() != Head::kNone) {
    throw DataError(fmt::format("{}: neither the adapter nor {} has {}; the adapter belongs to another model",
                                from.string(), folder.string(), fmt::join(fresh, ", ")));
  }
  log_report(folder, *loaded.model, loaded.report);
  return loaded;
}

PlainNetwork merged(const Model& model, const Params& params, const Tuning& tuning) {
  if (!tuning.merges()) {
    throw ConfigError(
        "adapters and prefixes are layers of their own and cannot be merged into a plain network; LoRA can");
  }
  const at::NoGradGuard no_grad;
  std::unique_ptr<Model> plain = make_model(model.config(), model.head());
  Params result(plain->layout(), {.clients = 1, .gradients = false, .device = params.device()});
  for (std::size_t i = 0; i < plain->layout().specs().size(); ++i) {
    const ParamId id{static_cast<int>(i)};
    result.tensor(id).copy_(params.tensor(*model.layout().find(plain->layout()[id].name)));
  }
  const bool transposed = family_of(model.config()).transposed;
  constexpr std::string_view kA = ".lora_A.weight";
  for (const ParamSpec& spec : model.layout().specs()) {
    if (!spec.attached || !spec.name.ends_with(kA)) continue;
    const std::string module = spec.name.substr(0, spec.name.size() - kA.size());
    const at::Tensor a = params.tensor(*model.layout().find(spec.name));
    const at::Tensor b = params.tensor(*model.layout().find(module + ".lora_B.weight"));
    const at::Tensor weight = result.tensor(*plain->layout().find(module + ".weight"));
    // In float64 the rounded sums do not depend on the number of threads.
    const at::Tensor update = torch::mm(b.to(at::kDouble), a.to(at::kDouble)) * tuning.scale(module);
    weight.copy_(weight.to(at::kDouble) + (transposed ? update.t() : update));
  }
  return {std::move(plain), std::move(result)};
}

}  // namespace chorus::inline peft
