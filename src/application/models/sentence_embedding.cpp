#include "application/models/sentence_embedding.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "application/models/ops/lookup.h"
#include "core/base/error.h"
#include "core/files/files.h"
#include "core/files/tensor_folder.h"

namespace chorus::inline models {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::uint64_t kLargestJson = 1 << 20;

struct PoolingName {
  const char* name;
  const char* flag;  // in 1_Pooling/config.json
  Pooling pooling;
};
// In the order in which sentence-transformers concatenates them.
constexpr std::array<PoolingName, 6> kPoolings{
    {{"cls", "pooling_mode_cls_token", Pooling::kFirst},
     {"max", "pooling_mode_max_tokens", Pooling::kMax},
     {"mean", "pooling_mode_mean_tokens", Pooling::kMean},
     {"mean_sqrt_len", "pooling_mode_mean_sqrt_len_tokens", Pooling::kMeanSqrt},
     {"weightedmean", "pooling_mode_weightedmean_tokens", Pooling::kWeightedMean},
     {"lasttoken", "pooling_mode_lasttoken", Pooling::kLast}}};

Json read_json(const fs::path& file) {
  Json json = Json::parse(read_file(file, kLargestJson), nullptr, false);
  if (json.is_discarded()) throw DataError(fmt::format("{}: not valid JSON; is the file complete?", file.string()));
  return json;
}

Json read_object(const fs::path& file) {
  if (!fs::exists(file)) return Json::object();
  Json json = read_json(file);
  if (!json.is_object()) throw DataError(fmt::format("{}: must hold a JSON object", file.string()));
  return json;
}

template <typename T>
T value_or(const Json& json, const char* key, T fallback, const fs::path& file) {
  if (!json.contains(key) || json[key].is_null()) return fallback;
  try {
    return json[key].get<T>();
  } catch (const Json::exception&) {
    throw DataError(fmt::format("{}: '{}' has a value of the wrong kind", file.string(), key));
  }
}

std::vector<Pooling> read_pooling(const fs::path& file) {
  const Json config = read_object(file);
  std::vector<Pooling> result;
  if (config.contains("pooling_mode")) {  // a name, or a list of names
    const Json& mode = config["pooling_mode"];
    for (const Json& name : mode.is_array() ? mode : Json::array({mode})) {
      if (!name.is_string()) throw DataError(fmt::format("{}: 'pooling_mode' must be a name", file.string()));
      result.push_back(pooling_named(name.get<std::string>()));
    }
  } else {
    for (const PoolingName& known : kPoolings) {
      // sentence-transformers' own default is the mean
      if (value_or(config, known.flag, known.pooling == Pooling::kMean, file)) result.push_back(known.pooling);
    }
  }
  if (result.empty()) throw DataError(fmt::format("{}: no pooling is chosen", file.string()));
  return result;
}

SentenceEmbedding::Step read_dense(const fs::path& folder) {
  const fs::path file = folder / "config.json";
  const Json config = read_object(file);
  const auto activation =
      value_or(config, "activation_function", std::string("torch.nn.modules.activation.Tanh"), file);
  SentenceEmbedding::Step step;
  step.tanh = activation.ends_with(".Tanh");
  if (!step.tanh && !activation.ends_with(".Identity")) {
    throw DataError(
        fmt::format("{}: the activation {} is none that Chorus has here (Tanh, Identity)", file.string(), activation));
  }
  const TensorSource source = TensorSource::open(folder);
  step.weight = source.read("linear.weight").to(at::kFloat);
  if (source.find("linear.bias")) step.bias = source.read("linear.bias").to(at::kFloat);
  if (step.weight.dim() != 2 || (step.bias.defined() && step.bias.sizes() != at::IntArrayRef({step.weight.size(0)}))) {
    throw DataError(fmt::format("{}: linear.weight and linear.bias do not fit together", source.path().string()));
  }
  return step;
}

void read_modules(const fs::path& folder, SentenceEmbedding& how) {
  const fs::path file = folder / "modules.json";
  const Json modules = read_json(file);
  if (!modules.is_array() || modules.empty()) throw DataError(fmt::format("{}: must hold a list", file.string()));
  for (const Json& module : modules) {
    if (!module.is_object()) throw DataError(fmt::format("{}: a module is not a JSON object", file.string()));
    const auto type = value_or(module, "type", std::string(), file);
    const auto path = value_or(module, "path", std::string(), file);
    if (fs::path(path).is_absolute() || path.find("..") != std::string::npos) {
      throw DataError(fmt::format("{}: the path '{}' leads out of the folder", file.string(), path));
    }
    const fs::path part = path.empty() ? folder : folder / path;
    const std::string kind = type.substr(type.rfind('.') + 1);
    if (kind == "Transformer" || kind == "BERT" || kind == "RoBERTa" || kind == "DistilBERT") {
      how.network = part;
    } else if (kind == "Pooling") {
      how.pooling = read_pooling(part / "config.json");
    } else if (kind == "Normalize") {
      how.steps.emplace_back();
    } else if (kind == "Dense") {
      how.steps.push_back(read_dense(part));
    } else if (kind != "Dropout") {
      throw DataError(fmt::format("{}: the module {} is none that Chorus has (Transformer, Pooling, Dense, Normalize)",
                                  file.string(), type));
    }
  }
}

at::Tensor maxima(const at::Tensor& hidden, const std::vector<std::int64_t>& lengths) {
  std::vector<at::Tensor> rows;
  std::int64_t begin = 0;
  for (const std::int64_t length : lengths) {
    rows.push_back(std::get<0>(hidden.narrow(0, begin, length).max(0)));
    begin += length;
  }
  return torch::stack(rows);
}

// hidden [T, H] of packed sequences -> [N, H].
at::Tensor pooled(Pooling pooling, const at::Tensor& hidden, const Packing& packing) {
  if (pooling == Pooling::kFirst) return Packing::pick(hidden.unsqueeze(0), packing.first_token()).squeeze(0);
  if (pooling == Pooling::kLast) return Packing::pick(hidden.unsqueeze(0), packing.last_token()).squeeze(0);
  if (pooling == Pooling::kMax) return maxima(hidden, packing.lengths()[0]);
  const std::int64_t count = packing.total_sequences();
  const at::Tensor owner = packing.owner().squeeze(0);
  at::Tensor weights = torch::ones({hidden.size(0), 1}, hidden.options());
  if (pooling == Pooling::kWeightedMean) {
    weights = (packing.positions().squeeze(0) + 1).to(hidden.scalar_type()).unsqueeze(1);
  }
  const at::Tensor sums = sum_rows(hidden * weights, owner, count);
  const at::Tensor total = sum_rows(weights, owner, count);
  return sums / (pooling == Pooling::kMeanSqrt ? total.sqrt() : total);
}

}  // namespace

Pooling pooling_named(const std::string& name) {
  std::vector<std::string> names;
  for (const PoolingName& known : kPoolings) {
    if (name == known.name) return known.pooling;
    names.emplace_back(known.name);
  }
  throw ConfigError(fmt::format("the pooling '{}' is unknown; there are {}", name, fmt::join(names, ", ")));
}

SentenceEmbedding read_sentence_embedding(const fs::path& folder) {
  SentenceEmbedding how;
  how.network = folder;
  if (!fs::exists(folder / "modules.json")) return how;
  read_modules(folder, how);
  for (const char* name :
       {"sentence_bert_config.json", "sentence_roberta_config.json", "sentence_distilbert_config.json"}) {
    const fs::path file = how.network / name;
    const Json config = read_object(file);
    how.max_length = value_or(config, "max_seq_length", how.max_length, file);
    how.lowercase = value_or(config, "do_lower_case", how.lowercase, file);
    if (how.max_length < 0) throw DataError(fmt::format("{}: 'max_seq_length' is negative", file.string()));
  }
  const fs::path file = folder / "config_sentence_transformers.json";
  const Json config = read_object(file);
  const auto prompt = value_or(config, "default_prompt_name", std::string(), file);
  if (!prompt.empty())
    how.prompt = value_or(config.value("prompts", Json::object()), prompt.c_str(), std::string(), file);
  return how;
}

at::Tensor sentence_vectors(const Model& model, const Params& params, const std::vector<TokenRow>& sequences,
                            const SentenceEmbedding& how) {
  check(params.clients() == 1, "embedding works on one client at a time");
  const auto* generative = dynamic_cast<const GenerativeModel*>(&model);
  if (generative != nullptr && generative->has_encoder()) {
    throw ConfigError("sentence vectors come from an encoder or a causal model; an encoder-decoder gives none");
  }
  const at::NoGradGuard no_grad;
  Dropout off;
  Batch batch = collate({sequences}, {}, params.device());
  // Evaluates the head on one token only, because its logits are not needed.
  batch.wanted = torch::zeros({1, 1}, batch.ids.options());
  const at::Tensor hidden = model.forward(params, batch, off).hidden.squeeze(0);  // [T, H]
  std::vector<at::Tensor> parts;
  for (const Pooling pooling : how.pooling) parts.push_back(pooled(pooling, hidden, *batch.packing));
  at::Tensor x = torch::cat(parts, 1);
  for (const SentenceEmbedding::Step& step : how.steps) {
    if (!step.weight.defined()) {
      x = x / x.norm(2, 1, true).clamp_min(1e-12);
      continue;
    }
    if (step.weight.size(1) != x.size(1)) {
      throw DataError(fmt::format("{}: a dense layer reads {} elements, but the pooled vector has {}",
                                  how.network.string(), step.weight.size(1), x.size(1)));
    }
    x = torch::linear(x, step.weight.to(x.device()), step.bias.defined() ? step.bias.to(x.device()) : step.bias);
    if (step.tanh) x = torch::tanh(x);
  }
  return x;
}

}  // namespace chorus::inline models
