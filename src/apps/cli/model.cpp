// chorus model info | check | convert | merge | personal
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "application/models/pretrained.h"
#include "application/parity/parity.h"
#include "application/peft/adapter_folder.h"
#include "apps/cli/cli.h"
#include "apps/experiment/own_model.h"
#include "core/base/error.h"
#include "core/console/text_table.h"
#include "infrastructure/tracking/run_folder.h"

namespace chorus::inline cli {
namespace {

using Json = nlohmann::json;

// 5,460,480
std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (std::ptrdiff_t i = static_cast<std::ptrdiff_t>(digits.size()) - 3; i > 0; i -= 3) {
    digits.insert(static_cast<std::size_t>(i), 1, ',');
  }
  return digits;
}

std::string part_name(int layer) {
  if (layer == kEmbeddingLayer) return "embeddings";
  return layer == kHeadLayer ? "head" : fmt::format("layer {}", layer);
}

struct InfoOptions {
  std::string folder;
  std::string head;
  bool json = false, tensors = false;
};

void print_info(const InfoOptions& options) {
  LoadOptions load;
  if (!options.head.empty()) load.head = head_named(options.head);
  const Pretrained loaded = load_tuned(options.folder, load);
  const Model& model = *loaded.model;
  std::map<int, std::int64_t> parts;
  for (const ParamSpec& spec : model.layout().specs()) parts[spec.layer] += spec.count;

  if (options.json) {
    Json json{{"folder", options.folder},         {"model_type", model.config().model_type()},
              {"head", name_of(model.head())},    {"parameters", model.layout().size()},
              {"layers", model.layers()},         {"vocabulary", model.vocabulary()},
              {"max_length", model.max_length()}, {"initialised", loaded.report.initialised},
              {"unused", loaded.report.unused}};
    for (const auto& [layer, count] : parts) json["parts"][part_name(layer)] = count;
    if (options.tensors) {
      for (const ParamSpec& spec : model.layout().specs()) json["tensors"][spec.name] = spec.shape;
    }
    fmt::print("{}\n", json.dump(2));
    return;
  }
  fmt::print("{}: {} with a {} head, {} parameters, vocabulary {}, {}\n\n", options.folder, model.config().model_type(),
             name_of(model.head()), grouped(model.layout().size()), grouped(model.vocabulary()),
             model.max_length() > 0 ? fmt::format("at most {} tokens", model.max_length()) : "any length");
  TextTable table({{"part"}, {"parameters", TextTable::Align::kRight}});
  for (const auto& [layer, count] : parts) table.add({part_name(layer), grouped(count)});
  fmt::print("{}", table.render());
  if (options.tensors) {
    TextTable tensors({{"tensor"}, {"shape", TextTable::Align::kRight}});
    for (const ParamSpec& spec : model.layout().specs()) {
      tensors.add({spec.name, fmt::format("{}", fmt::join(spec.shape, " x "))});
    }
    fmt::print("\n{}", tensors.render());
  }
  if (!loaded.report.initialised.empty()) {
    fmt::print("\nFresh, not from the folder: {}\n", fmt::join(loaded.report.initialised, ", "));
  }
  if (!loaded.report.unused.empty()) fmt::print("\nNot used: {}\n", fmt::join(loaded.report.unused, ", "));
}

struct CheckOptions {
  std::vector<std::string> folders;
  std::string device = "cpu";
  bool json = false;
};

std::string cell(const std::optional<double>& error) { return error ? fmt::format("{:.1e}", *error) : "-"; }

// The last part of a path, also of one that ends in a slash.
std::string folder_name(const std::string& folder) {
  const std::filesystem::path path = std::filesystem::path(folder).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

Json number(const std::optional<double>& error) { return error ? Json(*error) : Json(nullptr); }

void check_folders(const CheckOptions& options) {
  const at::Device device = device_named(options.device);
  TextTable table({{"checkpoint"},
                   {"logits", TextTable::Align::kRight},
                   {"packed", TextTable::Align::kRight},
                   {"loss", TextTable::Align::kRight},
                   {"gradients", TextTable::Align::kRight},
                   {"AdamW", TextTable::Align::kRight},
                   {"generated"},
                   {"verdict"}});
  Json rows = Json::array();
  int missed = 0;
  std::vector<std::string> reasons;
  for (const std::string& folder : options.folders) {
    const ParityReport report = check_parity(folder, {}, device);
    if (!report.passed()) ++missed;
    for (const std::string& miss : report.misses) reasons.push_back(fmt::format("{}: {}", folder, miss));
    table.add({folder_name(folder), cell(report.logits), cell(report.packed), cell(report.loss), cell(report.gradients),
               cell(report.adamw), report.generated ? (*report.generated ? "same" : "differs") : "-",
               report.passed() ? "ok" : "MISS"});
    rows.push_back({{"folder", folder},
                    {"logits", number(report.logits)},
                    {"packed", number(report.packed)},
                    {"loss", number(report.loss)},
                    {"gradients", number(report.gradients)},
                    {"worst_gradient", report.worst_gradient},
                    {"adamw", number(report.adamw)},
                    {"generated", report.generated ? Json(*report.generated) : Json(nullptr)},
                    {"misses", report.misses}});
  }
  if (options.json) {
    fmt::print("{}\n", rows.dump(2));
  } else {
    fmt::print("Largest errors against Hugging Face transformers:\n\n{}\n", table.render());
    for (const std::string& reason : reasons) fmt::print("{}\n", reason);
    fmt::print("{} of {} checkpoints match\n", options.folders.size() - static_cast<std::size_t>(missed),
               options.folders.size());
  }
  if (missed > 0) throw Error(ExitCode::kCheckFailed, fmt::format("{} checkpoint(s) missed a tolerance", missed));
}

struct ConvertOptions {
  std::string from, to, head, dtype = "float32";
  std::uint64_t shard_megabytes = 5000;
};

void convert(const ConvertOptions& options) {
  const std::map<std::string, at::ScalarType> types{
      {"float32", at::kFloat}, {"float16", at::kHalf}, {"bfloat16", at::kBFloat16}};
  LoadOptions load;
  if (!options.head.empty()) load.head = head_named(options.head);
  const Pretrained loaded = load_pretrained(options.from, load);
  save_pretrained(options.to, *loaded.model, loaded.params,
                  {.dtype = types.at(options.dtype),
                   .max_shard_bytes = options.shard_megabytes * 1000 * 1000,
                   .like = options.from});
  fmt::print("{}: {} with a {} head, {} parameters as {}\n", options.to, loaded.model->config().model_type(),
             name_of(loaded.model->head()), grouped(loaded.model->layout().size()), options.dtype);
}

struct MergeOptions {
  std::string model, adapter, to, head;
};

void merge(const MergeOptions& options) {
  LoadOptions load;
  if (!options.head.empty()) load.head = head_named(options.head);
  // The adapter of a run is in the folder `adapter` of its model.
  std::string adapter = options.adapter;
  for (const char* below : {"adapter", "model/adapter"}) {
    const std::string inside = (std::filesystem::path(options.adapter) / below).string();
    if (!options.adapter.empty() && !has_adapter(adapter) && has_adapter(inside)) adapter = inside;
  }
  const std::string from = adapter.empty() ? options.model : adapter;
  if (!has_adapter(from)) {
    throw DataError(fmt::format("{}: there is no adapter_config.json; nothing to merge", from));
  }
  const auto tuning = read_tuning(from);
  const Pretrained loaded = load_tuned(options.model, load, adapter);
  const PlainNetwork plain = merged(*loaded.model, loaded.params, *tuning);
  save_pretrained(options.to, *plain.model, plain.params, {.like = options.model});
  fmt::print("{}: {} with a {} head, {} parameters\n", options.to, plain.model->config().model_type(),
             name_of(plain.model->head()), grouped(plain.model->layout().size()));
}

struct PersonalOptions {
  std::string run, to;
  std::uint32_t client = 0;
};

void write_own_model(const PersonalOptions& options) {
  std::filesystem::path run = options.run, to = options.to;
  if (to.empty()) to = run / fmt::format("model_client_{}", options.client);
  const std::filesystem::path start = working_directory_of(run);
  if (start != std::filesystem::current_path()) {
    run = std::filesystem::absolute(run);
    to = std::filesystem::absolute(to);
    std::filesystem::current_path(start);  // where the paths of its configuration start from
  }
  fmt::print("{}\n", export_own_model(run, options.client, to));
}

}  // namespace

void add_model(CLI::App& app) {
  CLI::App* model = app.add_subcommand("model", "Look into, check and convert Hugging Face model folders");
  model->require_subcommand(1)->group(kModels);

  auto info = std::make_shared<InfoOptions>();
  CLI::App* show = model->add_subcommand("info", "What a model folder holds: architecture, head, parameters by part");
  show->add_option("DIR", info->folder, "a folder with config.json and weights")->required();
  show->add_option("--head", info->head, "read it with another head, for example sequence_classification");
  show->add_flag("--tensors", info->tensors, "list every tensor");
  show->add_flag("--json", info->json, "for programs");
  show->callback([info] { print_info(*info); });

  auto check = std::make_shared<CheckOptions>();
  CLI::App* compare = model->add_subcommand(
      "check",
      "Compare with numbers of Hugging Face transformers: each folder holds a checkpoint and expected.safetensors "
      "(inputs, labels, logits, loss, gradients, AdamW losses, generated ids; see docs/reference/formats.md). Exits "
      "with 1 when "
      "anything is over its tolerance: logits and loss 2e-5, gradients 1e-4 relative, AdamW losses 1e-4.");
  compare->add_option("DIR", check->folders, "folders to check")->required();
  compare->add_option("--device", check->device, "cpu or cuda")->capture_default_str();
  compare->add_flag("--json", check->json, "for programs");
  compare->callback([check] { check_folders(*check); });

  auto options = std::make_shared<ConvertOptions>();
  CLI::App* write = model->add_subcommand(
      "convert", "Write a model folder anew: another float type, shards, another head, .bin to safetensors");
  write->add_option("FROM", options->from, "the folder to read")->required();
  write->add_option("TO", options->to, "the folder to write")->required();
  write->add_option("--head", options->head, "give it another head; what the folder lacks is initialised");
  write->add_option("--dtype", options->dtype, "float32, float16 or bfloat16")
      ->check(CLI::IsMember({"float32", "float16", "bfloat16"}))
      ->capture_default_str();
  write->add_option("--shard-mb", options->shard_megabytes, "largest file, in megabytes")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  write->callback([options] { convert(*options); });

  auto own = std::make_shared<PersonalOptions>();
  CLI::App* single = model->add_subcommand(
      "personal", "Write a client's own model as a model folder, from a run whose algorithm gives clients one");
  single->add_option("RUN", own->run, "the run folder")->required();
  single->add_option("CLIENT", own->client, "the client's number, from 0")->required();
  single->add_option("--to", own->to, "the folder to write (default: model_client_N in the run folder)");
  single->callback([own] { write_own_model(*own); });

  auto merging = std::make_shared<MergeOptions>();
  CLI::App* join =
      model->add_subcommand("merge", "Add a LoRA adapter to the weights of its model: a plain model folder");
  join->add_option("MODEL", merging->model, "the folder of the network")->required();
  join->add_option("TO", merging->to, "the folder to write")->required();
  join->add_option("--adapter", merging->adapter, "the PEFT folder; default: the one in the model's folder");
  join->add_option("--head", merging->head, "read the network with this head, for example sequence_classification");
  join->callback([merging] { merge(*merging); });
}

}  // namespace chorus::inline cli
