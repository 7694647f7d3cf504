#include <fmt/format.h>

#include <memory>

#include "apps/cli/cli.h"
#include "apps/experiment/measure_profile.h"
#include "core/base/error.h"
#include "core/config/config.h"
#include "core/console/log.h"
#include "core/files/files.h"

namespace chorus::inline cli {
namespace {

constexpr const char* kProfileHelp = R"(
Measures training as a client does it, on all cores: whole layers from the top (full), adapters in
them (adapter), and both with the layers below cached. Use the file in an experiment with
emulation.fleet=[{profile: laptop.yaml}]. Its bandwidth and watts are defaults; edit them.

Examples:
  chorus profile --model models/chorus-mini --length 64 --out laptop.yaml
  chorus profile --model bert-base-uncased --depths 0,2,6,12)";

struct ProfileArguments {
  MeasureProfileRequest request;
  std::string out;
  std::vector<std::string> ways = {"full", "adapter", "adapter_cached"};
};

void profile(ProfileArguments& arguments) {
  MeasureProfileRequest& request = arguments.request;
  const auto folder = std::filesystem::path(arguments.out).parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder)) {  // fail before the measurement, which takes minutes
    throw DataError(fmt::format("{}: the folder {} does not exist", arguments.out, folder.string()));
  }
  request.report = [](const TuningWay& way, std::int64_t depth, double seconds) {
    Log("profile").info("{}, depth {}: {:.4f} s per batch", name_of(way), depth, seconds);
  };
  for (const std::string& way : arguments.ways) request.ways.push_back(way_named(way));
  const std::string yaml = fmt::format("# chorus profile --model {} --batch-size {} --length {}\n",
                                       request.model.string(), request.batch_size, request.length) +
                           config_to_yaml(measure_profile(request), "device_profile");
  if (arguments.out.empty()) {
    fmt::print("{}", yaml);
    return;
  }
  write_file(arguments.out, yaml);
  fmt::print("{}: use it with emulation.fleet=[{{profile: {}}}]\n", arguments.out, arguments.out);
}

}  // namespace

void add_profile(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("profile", "Time training on this machine by depth and write a device profile");
  auto arguments = std::make_shared<ProfileArguments>();
  MeasureProfileRequest& request = arguments->request;
  command->group(kRuns);
  command->footer(kProfileHelp);
  command->add_option("--model", request.model, "A Hugging Face folder")->required();
  command->add_option("--batch-size", request.batch_size, "Rows per batch")
      ->capture_default_str()
      ->check(CLI::Range(1, 65536));
  command->add_option("--length", request.length, "Tokens per row")
      ->capture_default_str()
      ->check(CLI::Range(3, 1 << 20));
  command->add_option("--depths", request.depths, "Depths, as 0,2,6 (default: all)")->delimiter(',');
  command->add_option("--ways", arguments->ways, "What to train: full, full_cached, adapter, adapter_cached")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--batches", request.batches, "Batches per repetition, of which there are three")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  command->add_option("--name", request.name, "Name of the device")->capture_default_str();
  command->add_option("--device", request.device, "cpu or cuda")
      ->capture_default_str()
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command->add_option("--out", arguments->out, "The file to write (default: standard output)");
  command->callback([arguments] { profile(*arguments); });
}

}  // namespace chorus::inline cli
