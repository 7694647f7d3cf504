#include "apps/serving/job_offer.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "application/data/readers/format.h"
#include "core/base/error.h"
#include "core/base/fingerprint.h"
#include "core/config/config.h"
#include "core/files/files.h"

namespace chorus::inline serving {
namespace {

namespace fs = std::filesystem;

/// What Hugging Face folders consist of; anything else is not needed.
bool belongs(const fs::path& path) {
  static const std::set<std::string> kKinds{".json", ".txt", ".model", ".safetensors", ".bin"};
  return fs::is_regular_file(path) && kKinds.contains(path.extension().string()) &&
         is_plain_name(path.filename().string());
}

void add_file(const std::string& place, const std::string& name, const fs::path& path, ModelFiles& result) {
  const MappedFile file(path);
  if (file.size() > kMostJobFileBytes) {
    throw DataError(
        fmt::format("{} is over 2 GiB, the most that can be sent; split it (weights: `chorus model convert --shard-mb "
                    "1000`)",
                    path.string()));
  }
  const std::string digest = fingerprint(file.text()).hex();
  result.files.push_back({place, name, file.size(), digest});
  result.paths[digest] = path;
}

/// The public files by number, with the endings that tell their format.
std::string public_name(std::size_t number, const fs::path& path) {
  const std::string name = path.filename().string();
  const std::size_t dot = name.find('.');
  return fmt::format("{}{}", number, dot == std::string::npos ? "" : name.substr(dot));
}

void add_folder(const std::string& place, const fs::path& folder, ModelFiles& result) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (belongs(entry.path())) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  const bool safe =
      std::any_of(paths.begin(), paths.end(), [](const fs::path& p) { return p.extension() == ".safetensors"; });
  for (const fs::path& path : paths) {
    if (safe && path.extension() == ".bin") continue;  // the same weights again
    add_file(place, path.filename().string(), path, result);
  }
}

}  // namespace

void check_public_file(const fs::path& path, const std::string& format) {
  if (format == "fednlp" || (format == "auto" && guess_format(path).name == "fednlp")) {
    throw DataError(
        fmt::format("{} is an HDF5 file, and public files travel as text only; write it as JSON lines", path.string()));
  }
}

std::string config_for_clients(ExperimentConfig config) {
  const ExperimentConfig defaults;
  const FederationConfig server = config.federation;
  config.data.cache = "none";
  config.data.client_files = false;
  config.data.limit = 0;
  if (config.data.format == "synthetic") config.data.format = "auto";
  config.encoding = defaults.encoding;
  config.encoding.cache = "none";
  config.device = "cpu";
  config.clients = {};
  config.attacks.reset();
  config.emulation.reset();
  config.continual.reset();
  config.serving = defaults.serving;
  config.federation = {};
  config.federation.cohort_batch = "1";
  config.federation.workers = 1;
  config.federation.kernels = server.kernels;
  config.federation.deterministic = server.deterministic;
  if (!config.model.from.empty()) config.model.from = "model";
  if (!config.model.tokenizer.empty()) config.model.tokenizer = "tokenizer";
  return config_to_yaml(ConfigDocument::parse(config_to_yaml(config, "experiment"), "the configuration for clients")
                            .ignore_paths()
                            .load<ExperimentConfig>(),
                        "experiment");
}

ModelFiles model_files(const ExperimentConfig& config) {
  ModelFiles result;
  if (!config.model.from.empty()) add_folder("model", config.model.from, result);
  if (!config.model.tokenizer.empty()) add_folder("tokenizer", config.model.tokenizer, result);
  for (std::size_t i = 0; config.publics && i < config.publics->unlabelled.size(); ++i) {
    const fs::path path = config.publics->unlabelled[i];
    check_public_file(path, config.data.format);
    if (!is_plain_name(public_name(i, path))) {
      throw ConfigError(
          fmt::format("public.unlabelled: {} has an ending of other characters than letters, digits, "
                      "dots, - and _; give it another name",
                      path.string()));
    }
    add_file(kPublicPlace, public_name(i, path), path, result);
  }
  return result;
}

}  // namespace chorus::inline serving
