#include "application/models/pretrained.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "core/files/files.h"
#include "core/files/tensor_folder.h"
#include "core/tensor/named_tensors.h"

namespace chorus::inline models {
namespace {

namespace fs = std::filesystem;

// "3 tensors are missing: a, b, c"; long lists are cut.
std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < 5; ++i) text += fmt::format("{}{}", i ? ", " : "", names[i]);
  if (names.size() > 5) text += fmt::format(" and {} more", names.size() - 5);
  return text;
}

std::string counted(std::size_t count) { return fmt::format("{} tensor{}", count, count == 1 ? "" : "s"); }

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

bool is_constant(const ModelFamily& family, const std::string& name) {
  return std::any_of(family.constants.begin(), family.constants.end(),
                     [&](const std::string& ending) { return name.ends_with(ending); });
}

// The layout's parameter that a checkpoint's name means. Bare models are saved without the prefix that the same model
// under a head has.
std::optional<ParamId> resolve(const Layout& layout, const ModelFamily& family, std::string name) {
  for (const auto& [old_ending, ending] : family.old_endings) {
    if (name.ends_with(old_ending)) name = name.substr(0, name.size() - old_ending.size()) + ending;
  }
  const std::string& prefix = family.body_prefix;
  if (const auto id = layout.find(name)) return id;
  if (prefix.empty()) return std::nullopt;
  if (const auto id = layout.find(prefix + name)) return id;
  if (name.starts_with(prefix)) return layout.find(name.substr(prefix.size()));
  return std::nullopt;
}

struct Match {
  std::vector<std::pair<ParamId, std::string>> found;
  std::vector<std::string> missing_body, missing_head, unused;
};

// `other_head`: the folder's head is another one, so that a tensor of its head may have our name and not our shape.
Match match(const Model& model, const TensorSource& source, bool other_head) {
  Match result;
  const Layout& layout = model.layout();
  const ModelFamily family = family_of(model.config());
  std::set<int> seen;
  for (const std::string& name : source.names()) {
    const auto id = resolve(layout, family, name);
    const bool foreign =
        id && other_head && layout[*id].layer == kHeadLayer && source.find(name)->shape != layout[*id].shape;
    if (!id || foreign) {
      if (!is_constant(family, name)) result.unused.push_back(name);
    } else if (seen.insert(id->index).second) {
      result.found.emplace_back(*id, name);
    }
  }
  for (std::size_t i = 0; i < layout.specs().size(); ++i) {
    if (seen.contains(static_cast<int>(i))) continue;
    const ParamSpec& spec = layout.specs()[i];
    if (spec.buffer || spec.attached) continue;  // these begin as their Init says
    (spec.layer == kHeadLayer ? result.missing_head : result.missing_body).push_back(spec.name);
  }
  return result;
}

// With the folder's own head nothing may differ; with another one the heads may.
void judge(const Match& match, const fs::path& file, const Model& model, bool other_head) {
  std::vector<std::string> missing = match.missing_body;
  if (!other_head && model.head() != Head::kNone) {
    missing.insert(missing.end(), match.missing_head.begin(), match.missing_head.end());
  }
  if (!missing.empty()) {
    throw DataError(fmt::format("{}: {} of a {} model {} missing: {}", file.string(), counted(missing.size()),
                                model.config().model_type(), missing.size() == 1 ? "is" : "are", listed(missing)));
  }
  if (!other_head && !match.unused.empty()) {
    throw DataError(fmt::format("{}: {} unexpected in a {} model with a {} head: {}", file.string(),
                                counted(match.unused.size()) + (match.unused.size() == 1 ? " is" : " are"),
                                model.config().model_type(), name_of(model.head()), listed(match.unused)));
  }
}

void read_weights(const Match& match, const TensorSource& source, const Params& params) {
  const Layout& layout = params.layout();
  std::vector<NamedTensor> read;
  for (const auto& [id, name] : match.found) {
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
                    "model.safetensors, as Hugging Face writes it",
                    folder.string()));
  }
  ModelConfig config = ModelConfig::read(folder / "config.json");
  ModelConfig generation = read_generation_config(folder);
  bool other_labels = false;
  if (options.labels) {
    other_labels = options.labels->size() != config.labels().size();
    config.set_labels(*options.labels);
  }
  std::unique_ptr<Model> model = options.head ? make_model(config, *options.head) : make_model(config);
  if (options.prepare) options.prepare(*model);

  const TensorSource source = TensorSource::open(folder);
  const bool other_head = other_labels || config.head() != model->head();
  const Match found = match(*model, source, other_head);
  judge(found, source.path(), *model, other_head);
  Params params(model->layout(), {.clients = 1, .gradients = options.gradients, .device = options.device});
  for (const ParamSpec& spec : model->layout().specs()) {
    const bool fresh =
        spec.buffer || spec.attached ||
        std::find(found.missing_head.begin(), found.missing_head.end(), spec.name) != found.missing_head.end();
    if (fresh) params.initialise(*model->layout().find(spec.name), options.seed);
  }
  read_weights(found, source, params);
  return {std::move(model), std::move(params), {found.missing_head, found.unused}, std::move(generation)};
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
