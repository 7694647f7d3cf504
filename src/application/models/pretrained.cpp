#include "application/models/pretrained.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "application/models/head_labels.h"
#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/console/log.h"
#include "core/files/files.h"
#include "core/files/tensor_folder.h"
#include "core/tensor/named_tensors.h"

namespace chorus::inline models {
namespace {

namespace fs = std::filesystem;

// "3 tensors are missing: a, b, c"; long lists are truncated.
std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < 5; ++i) text += fmt::format("{}{}", i ? ", " : "", names[i]);
  if (names.size() > 5) text += fmt::format(" and {} more", names.size() - 5);
  return text;
}

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

bool ends_with_any(const std::string& name, const std::vector<std::string>& endings) {
  return std::any_of(endings.begin(), endings.end(), [&](const std::string& ending) { return name.ends_with(ending); });
}

struct Resolved {
  ParamId id;
  bool alias;  // the other name of a tied tensor
};

// The parameter that a checkpoint's tensor name refers to. Bare models are saved without the prefix that they have
// under a head.
std::optional<Resolved> resolve(const Layout& layout, const ModelFamily& family, std::string name) {
  for (const auto& [old_ending, ending] : family.old_endings) {
    if (name.ends_with(old_ending)) name = name.substr(0, name.size() - old_ending.size()) + ending;
  }
  std::vector<std::string> spellings{name};
  if (const std::string& prefix = family.body_prefix; !prefix.empty()) {
    spellings.push_back(prefix + name);
    if (name.starts_with(prefix)) spellings.push_back(name.substr(prefix.size()));
  }
  for (const std::string& spelling : spellings) {
    if (const auto id = layout.find(spelling)) return Resolved{*id, layout.is_alias(spelling)};
  }
  return std::nullopt;
}

bool is_head(const ParamSpec& spec, const ModelFamily& family) {
  return spec.layer == kHeadLayer && !ends_with_any(spec.name, family.body_ends);
}

struct Match {
  std::map<int, std::string> found;                   // by parameter index
  std::vector<std::pair<ParamId, std::string>> tied;  // further copies of found tensors
  std::vector<std::string> missing_body, missing_head, unused;
};

// `other_head`: the folder has another head, so that a tensor of its head may have our name but another shape.
// `dropped`: parameters that are not read.
Match match(const Model& model, const TensorSource& source, bool other_head,
            const std::vector<std::string>& dropped = {}) {
  Match result;
  const Layout& layout = model.layout();
  const ModelFamily family = family_of(model.config());
  for (const std::string& name : source.names()) {
    const auto resolved = resolve(layout, family, name);
    const bool foreign = resolved && other_head && is_head(layout[resolved->id], family) &&
                         source.find(name)->shape != layout[resolved->id].shape;
    const bool drop = resolved && std::find(dropped.begin(), dropped.end(), layout[resolved->id].name) != dropped.end();
    if (!resolved || foreign || drop) {
      if (!ends_with_any(name, family.constants)) result.unused.push_back(name);
      continue;
    }
    const auto [id, alias] = *resolved;
    const auto [entry, first] = result.found.emplace(id.index, name);
    if (first) continue;
    const bool replaces = !alias && resolve(layout, family, entry->second)->alias;
    result.tied.emplace_back(id, replaces ? std::exchange(entry->second, name) : name);
  }
  for (std::size_t i = 0; i < layout.specs().size(); ++i) {
    if (result.found.contains(static_cast<int>(i))) continue;
    const ParamSpec& spec = layout.specs()[i];
    if (spec.buffer || spec.attached) continue;  // these start from their Init
    (is_head(spec, family) ? result.missing_head : result.missing_body).push_back(spec.name);
  }
  return result;
}

// The head that config.json names. If Chorus does not have it (BertForPreTraining, an old file), the head with the most
// tensors that are all in the folder; else the bare body, or the family's only head.
Head head_for(const ModelConfig& config, const TensorSource& source) {
  const ModelFamily family = family_of(config);
  if (const auto head = config.head(); head && family.has(*head)) return *head;
  Head best = family.heads.front();
  std::size_t most = 0;
  for (const Head head : family.heads) {
    const auto model = family.make(config, head);
    if (!match(*model, source, true).missing_head.empty()) continue;
    std::size_t count = 0;
    for (const ParamSpec& spec : model->layout().specs()) count += is_head(spec, family) ? 1 : 0;
    if (count < most) continue;
    best = head;
    most = count;
  }
  return best;
}

void read_weights(const Match& match, const TensorSource& source, const Params& params) {
  const Layout& layout = params.layout();
  std::vector<NamedTensor> read;
  for (const auto& [index, name] : match.found) {
    const ParamId id{index};
    const ParamSpec& spec = layout[id];
    const TensorInfo info = *source.find(name);
    if (info.shape != spec.shape) {
      const char* hint = spec.layer == kHeadLayer ? "; does the checkpoint have another number of labels?" : "";
      throw DataError(fmt::format("{}: {} has the shape {}, but config.json asks for {}{}", source.path().string(),
                                  name, shape_text(info.shape), shape_text(spec.shape), hint));
    }
    if (!at::isFloatingType(info.dtype)) {
      throw DataError(fmt::format("{}: {} holds {}, not floating-point numbers", source.path().string(), name,
                                  c10::toString(info.dtype)));
    }
    source.read_into(name, params.tensor(id));
    read.emplace_back(name, params.tensor(id));
  }
  if (const auto name = first_non_finite(read)) {
    throw DataError(fmt::format("{}: {} holds NaN or infinity; the checkpoint is damaged or its training diverged",
                                source.path().string(), *name));
  }
}

// What becomes of the rows of a checkpoint's head when the model gets the labels of the data.
struct Relabelled {
  bool other = false;                      // the folder has no rows for these labels
  std::vector<std::string> dropped = {};   // parameters of its head that are for other labels
  std::vector<std::string> permuted = {};  // those whose rows are for the same labels in another order
  std::vector<std::int64_t> rows = {};     // of `permuted`
};

Relabelled relabel(const fs::path& folder, ModelConfig& config, Head head, const LoadOptions& options) {
  if (!options.labels) return {};
  const std::vector<std::string> own = config.labels(), &wanted = *options.labels;
  config.set_labels(wanted);
  Relabelled result{.other = own.size() != wanted.size()};
  if (result.other || config.head() != head || !head->labelled) return result;
  LabelMatch match = match_labels(own, wanted);
  if (!match.rows.empty()) {
    result.permuted = label_parameters(config, head);
    result.rows = std::move(match.rows);
  }
  if (!match.other) return result;
  const std::string what = fmt::format("{}: its head answers for the labels {}, but the data has the labels {}",
                                       folder.string(), listed(own), listed(wanted));
  if (options.same_labels) {
    throw DataError(what +
                    "; take a model for these labels, or name them alike (id2label in its config.json, data.labels)");
  }
  if (!options.quiet) Log("model").warning("{}; their rows are initialised anew", what);
  result.other = true;
  result.dropped = label_parameters(config, head);
  return result;
}

bool same_values(const TensorSource& source, const std::string& name, const at::Tensor& value) {
  const auto info = source.find(name);
  if (info->shape != value.sizes().vec()) return false;
  at::Tensor copy = torch::empty_like(value);
  source.read_into(name, copy);
  return torch::equal(copy, value);
}

}  // namespace

ModelConfig read_generation_config(const fs::path& folder) {
  const ModelConfig config = ModelConfig::read(folder / "config.json");
  const fs::path file = folder / "generation_config.json";
  if (!fs::exists(file)) return config;
  ModelConfig generation = ModelConfig::read(file);
  generation.inherit(config);
  return generation;
}

Pretrained load_pretrained(const fs::path& folder, const LoadOptions& options) {
  if (!fs::is_directory(folder)) {
    throw DataError(
        fmt::format("{}: there is no such folder; a model is a folder with config.json and "
                    "model.safetensors, as Hugging Face writes it (chorus model get NAME downloads one)",
                    folder.string()));
  }
  ModelConfig config = ModelConfig::read(folder / "config.json");
  ModelConfig generation = read_generation_config(folder);
  const TensorSource source = TensorSource::open(folder);
  const Head head = options.head ? *options.head : head_for(config, source);
  const Relabelled labels = relabel(folder, config, head, options);
  std::unique_ptr<Model> model = make_model(config, head);
  if (options.prepare) options.prepare(*model);

  const bool own_head = !labels.other && config.head() == head;
  const Match found = match(*model, source, !own_head, labels.dropped);
  if (!found.missing_body.empty()) {
    throw DataError(fmt::format("{}: {} of a {} model {} missing: {}", source.path().string(),
                                counted(found.missing_body.size(), "tensor"), config.model_type(),
                                found.missing_body.size() == 1 ? "is" : "are", listed(found.missing_body)));
  }
  Params params(model->layout(), {.clients = 1, .gradients = options.gradients, .device = options.device});
  for (const ParamSpec& spec : model->layout().specs()) {
    const bool fresh =
        spec.buffer || spec.attached ||
        std::find(found.missing_head.begin(), found.missing_head.end(), spec.name) != found.missing_head.end();
    if (fresh) params.initialise(*model->layout().find(spec.name), options.seed);
  }
  read_weights(found, source, params);
  for (const std::string& name : labels.permuted) {
    const at::Tensor rows = params.tensor(*model->layout().find(name));
    rows.copy_(rows.index_select(0, torch::tensor(labels.rows, at::kLong).to(rows.device())));
  }
  LoadReport report{found.missing_head, found.unused, {}, own_head};
  for (const auto& [id, name] : found.tied) {
    report.tied.push_back(name);
    if (!same_values(source, name, params.tensor(id))) report.untied.push_back(name);
  }
  if (!options.quiet) log_report(folder, *model, report);
  return {std::move(model), std::move(params), std::move(report), std::move(generation)};
}

void log_report(const fs::path& folder, const Model& model, const LoadReport& report) {
  std::vector<std::string> parts;
  const auto add = [&](const char* what, const std::vector<std::string>& names) {
    if (!names.empty()) parts.push_back(fmt::format("{} {}: {}", counted(names.size(), "tensor"), what, listed(names)));
  };
  const bool fresh = !report.initialised.empty() && model.head() != Head::kNone;  // nothing reads a bare model's pooler
  if (fresh) add("fresh", report.initialised);
  add("unused", report.unused);
  add("tied", report.tied);
  if (fresh || !report.unused.empty()) {
    const Log log("model");
    const std::string line = fmt::format("{}", fmt::join(parts, "; "));
    if (fresh && report.own_head) {
      log.warning("{}: its {} head is not complete: {}", folder.string(), name_of(model.head()), line);
    } else {
      log.info("{}: {}", folder.string(), line);
    }
  }
  if (!report.untied.empty()) {
    Log("model").warning("{}: tied to another tensor, from which it differs, and not used: {}", folder.string(),
                         listed(report.untied));
  }
}

void save_pretrained(const fs::path& folder, const Model& model, const Params& params, const SaveOptions& options) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) throw DataError(fmt::format("{}: cannot be made: {}", folder.string(), failure.message()));

  ModelConfig config = model.config();
  config.set_architecture(family_of(config).class_name(model.head()));
  config.set_text("dtype", options.dtype == at::kHalf       ? "float16"
                           : options.dtype == at::kBFloat16 ? "bfloat16"
                                                            : "float32");
  write_file(folder / "config.json", config.dump());
  if (!options.like.empty() && !fs::equivalent(options.like, folder)) {
    for (const char* name :
         {"generation_config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "merges.txt",
          "spiece.model", "special_tokens_map.json", "added_tokens.json"}) {
      if (fs::exists(options.like / name)) write_file(folder / name, read_file(options.like / name));
    }
  }
  std::vector<NamedTensor> tensors;
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < model.layout().specs().size(); ++i) {
    const ParamId id{static_cast<int>(i)};
    if (model.layout()[id].attached) continue;
    tensors.emplace_back(model.layout()[id].name, params.tensor(id, options.client).to(options.dtype));
  }
  write_sharded(folder, tensors, options.max_shard_bytes);
}

void check_vocabulary(const Model& model, std::int64_t vocabulary, const std::string& tokenizer) {
  const std::int64_t rows = model.vocabulary();
  if (vocabulary > rows) {
    throw DataError(
        fmt::format("{}: the tokenizer has {} entries but the model's embedding only {} rows; they do not "
                    "belong together",
                    tokenizer, vocabulary, rows));
  }
  constexpr std::int64_t kRound = 128;
  if (rows > (vocabulary + kRound - 1) / kRound * kRound) {
    throw DataError(
        fmt::format("{}: the tokenizer has {} entries, fewer than the {} rows of the model's embedding; "
                    "they do not belong together",
                    tokenizer, vocabulary, rows));
  }
}

}  // namespace chorus::inline models
