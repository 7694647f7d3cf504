#include "apps/experiment/config_inputs.h"

#include <fmt/format.h>

#include <filesystem>
#include <functional>

#include "application/data/synthetic/synthetic.h"
#include "application/models/pretrained.h"
#include "application/tasks/task.h"
#include "application/text/hugging_face.h"
#include "apps/experiment/task_model.h"
#include "core/base/error.h"
#include "infrastructure/emulation/fleet.h"

namespace chorus::inline experiment {
namespace {

namespace fs = std::filesystem;

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

class Inputs {
 public:
  explicit Inputs(const ExperimentConfig& config) : config_(config) {}

  std::vector<std::string> missing() {
    data();
    if (!config_.clients.file.empty()) file("clients.file", config_.clients.file);
    attempt([&] { network(); });
    other_networks();
    if (config_.emulation) attempt([&] { Fleet(*config_.emulation, 0); });
    return std::move(problems_);
  }

 private:
  void file(const std::string& key, const std::string& path) {
    if (!exists(path)) problems_.push_back(fmt::format("{}: {} does not exist", key, path));
  }

  // Records the error that the run itself would report.
  void attempt(const std::function<void()>& step) {
    try {
      step();
    } catch (const Error& error) {
      problems_.emplace_back(error.what());
    }
  }

  void data() {
    if (config_.data.train.empty() && config_.data.validation.empty() && config_.data.test.empty()) {
      problems_.emplace_back("data: no data; set train, validation or test");
    }
    const bool made = config_.data.format == "synthetic";  // then a path says what is made
    for (const auto& [key, paths] :
         {std::pair("data.train", &config_.data.train), std::pair("data.validation", &config_.data.validation),
          std::pair("data.test", &config_.data.test)}) {
      for (const std::string& path : *paths) {
        if (!made) {
          file(key, path);
        } else if (exists(path)) {
          problems_.push_back(
              fmt::format("{}: {} is a file, but data.format is synthetic; leave data.format out", key, path));
        } else {
          attempt([&] { (void)parse_synthetic(path); });
        }
      }
    }
    if (!config_.publics) return;
    for (const std::string& path : config_.publics->unlabelled) file("public.unlabelled", path);
    for (const std::string& path : config_.publics->query) file("public.query", path);
  }

  // Networks of clients; the server's is read by `network`.
  void other_networks() {
    for (const ClientModelConfig& other : config_.clients.models) {
      const NetworkConfig& network = other.model;
      attempt([&] { (void)load_tokenizer(network.tokenizer.empty() ? network.from : network.tokenizer); });
      if (!network.from.empty()) file(fmt::format("clients.models, {}", other.name), network.from);
    }
  }

  void network() {
    const NetworkConfig& network = config_.model;
    TaskInput input;
    if (!network.from.empty()) input.model = read_generation_config(network.from);
    input.tokenizer = load_tokenizer(network.tokenizer.empty() ? network.from : network.tokenizer);
    if (network.from.empty()) {
      input.model = fresh_config(network, input.tokenizer->vocabulary_size());
      require_known_keys(*input.model);
    }
    metric(input);
  }

  // Labels come from the data, which is not read: any labels that the task accepts will do.
  void metric(TaskInput input) {
    const std::string& wanted = config_.evaluation.metric;
    if (wanted == "auto" || wanted == "eval_loss") return;
    for (const std::vector<std::string>& labels :
         {config_.data.labels, std::vector<std::string>{"0", "1"}, std::vector<std::string>{"O", "B-X", "I-X"}}) {
      input.labels = labels;
      try {
        const Scores scores = config_.task.make(input)->metric()->scores();
        if (scores.contains(wanted)) return;
        std::string names = "eval_loss";
        for (const auto& entry : scores) names += ", " + entry.first;
        problems_.push_back(fmt::format("evaluation.metric: this task has no score \"{}\"; it has {}", wanted, names));
        return;
      } catch (const ConfigError&) {  // it needs labels of another kind
      }
    }
  }

  const ExperimentConfig& config_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> missing_inputs(const ExperimentConfig& config) { return Inputs(config).missing(); }

}  // namespace chorus::inline experiment
