#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "apps/cli/cli.h"
#include "core/base/error.h"
#include "core/console/progress.h"
#include "infrastructure/hub/hub.h"

namespace chorus::inline cli {
namespace {

constexpr const char* kGetHelp = R"(
The files go to Hugging Face's own cache and are checked; what Python has downloaded is found there.
HF_ENDPOINT names a mirror, HF_HUB_CACHE or HF_HOME another cache, HF_TOKEN a token for models that
need one. An interrupted download continues when the command is typed again.

Examples:
  chorus model get bert-base-uncased
  chorus model get sentence-transformers/all-MiniLM-L6-v2 --to models/minilm)";

struct GetArguments {
  std::string name, revision = "main";
  std::filesystem::path to;
};

void get(const GetArguments& arguments) {
  namespace fs = std::filesystem;
  HubOptions options = HubOptions::from_environment();
  std::optional<Progress> progress;
  options.progress = [&](const HubFile& file, std::uint64_t done, std::uint64_t total) {
    if (!progress)
      progress.emplace(
          ProgressOptions{.label = arguments.name, .total = static_cast<std::int64_t>(total / 1000), .unit = "kB"});
    progress->note(file.path);
    progress->set(static_cast<std::int64_t>(done / 1000));
  };
  const HubModel model = get_model(arguments.name, arguments.revision, options);
  if (progress) progress->finish();
  if (model.offline) fmt::print(stderr, "the hub cannot be reached; this is what the cache has\n");
  fs::path folder = model.folder;
  if (!arguments.to.empty()) {
    std::error_code error;
    fs::create_directories(arguments.to, error);
    if (!error)
      fs::copy(model.folder, arguments.to, fs::copy_options::recursive | fs::copy_options::update_existing, error);
    if (error) throw WorldError(fmt::format("{}: cannot be written: {}", arguments.to.string(), error.message()));
    folder = arguments.to;
  }
  fmt::print("{}\n", folder.string());
}

}  // namespace

void add_model_get(CLI::App& app) {
  CLI::App* command =
      app.get_subcommand("model")->add_subcommand("get", "Download a model from a hub, and print its folder");
  const auto arguments = std::make_shared<GetArguments>();
  command->footer(kGetHelp);
  command->add_option("NAME", arguments->name, "Its name on the hub, such as bert-base-uncased")->required();
  command->add_option("--revision", arguments->revision, "A branch, tag or commit")->capture_default_str();
  command->add_option("--to", arguments->to, "Also copy the files into this folder");
  command->callback([arguments] { get(*arguments); });
}

}  // namespace chorus::inline cli
