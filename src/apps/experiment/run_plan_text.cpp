#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/experiment/run_plan.h"

namespace chorus::inline experiment {
namespace {

std::string size_text(double bytes) {
  if (bytes < 1e6) return fmt::format("{:.1f} kB", bytes / 1e3);
  return bytes < 1e9 ? fmt::format("{:.1f} MB", bytes / 1e6) : fmt::format("{:.2f} GB", bytes / 1e9);
}

std::string span_text(double seconds) {
  if (seconds < 120) return fmt::format("{:.1f} s", seconds);
  return seconds < 7200 ? fmt::format("{:.1f} min", seconds / 60) : fmt::format("{:.2f} h", seconds / 3600);
}

std::string cuts_text(const RunPlan& plan) {
  std::string text = fmt::format("split      {} of activations per batch{}\n", size_text(plan.cut_bytes),
                                 plan.labels_stay ? " up and down, twice" : " up, and as much down");
  for (const SplitChoice& cut : plan.cuts) {
    text += fmt::format("             layers {}: client {}, server {} per client\n", cut.layers,
                        size_text(cut.client_memory), size_text(cut.server_memory));
  }
  if (!plan.cut_memory) return text;
  const std::string device = size_text(*plan.cut_memory);
  if (plan.suggested_layers) {
    text += fmt::format("             algorithm.layers: {} is the most that fits a device with {}\n",
                        *plan.suggested_layers, device);
  } else {
    text += fmt::format(
        "             a device with {} cannot even hold the embeddings; lower trainer.batch_size or the task's "
        "max_length, or take a smaller model\n",
        device);
  }
  return text;
}

}  // namespace

std::string to_text(const RunPlan& plan) {
  std::string text =
      fmt::format("{}\n{} rounds, {:.0f} clients asked in each\n\n", plan.description, plan.rounds, plan.asked);
  text += fmt::format("memory     {} for the process ({} are free)\n", size_text(plan.peak_memory),
                      size_text(plan.available_memory));
  text += fmt::format("             server {}, per client {}, clients at once {} ({} workers with {} each)\n",
                      size_text(plan.server_memory), size_text(plan.client_memory), size_text(plan.cohort_memory),
                      plan.machine.workers, plan.machine.cohort_batch);
  if (plan.cache_memory > 0) text += fmt::format("             cached activations {}\n", size_text(plan.cache_memory));
  text += fmt::format("bytes      {:.0f} down and {:.0f} up per round; {} in the whole run\n", plan.bytes_down,
                      plan.bytes_up, size_text((plan.bytes_down + plan.bytes_up) * static_cast<double>(plan.rounds)));
  if (plan.emulated_seconds) {
    text += fmt::format("emulated   {} per round, {} in all", span_text(*plan.emulated_round_seconds),
                        span_text(*plan.emulated_seconds));
    if (!plan.emulated_how.empty()) text += fmt::format(" ({})", plan.emulated_how);
    text += plan.device_memory > 0 ? fmt::format("; {} of memory per device\n", size_text(plan.device_memory)) : "\n";
  }
  if (!plan.cuts.empty()) text += cuts_text(plan);
  text += fmt::format("real time  {} per round, {} per evaluation, {} in all ({})\n", span_text(plan.round_seconds),
                      span_text(plan.evaluation_seconds), span_text(plan.seconds), plan.how);
  return text;
}

std::string to_json(const RunPlan& plan) {
  nlohmann::ordered_json json = {{"rounds", plan.rounds},
                                 {"clients_asked", plan.asked},
                                 {"cohort_batch", plan.machine.cohort_batch},
                                 {"workers", plan.machine.workers},
                                 {"client_memory", plan.client_memory},
                                 {"server_memory", plan.server_memory},
                                 {"cohort_memory", plan.cohort_memory},
                                 {"cache_memory", plan.cache_memory},
                                 {"peak_memory", plan.peak_memory},
                                 {"available_memory", plan.available_memory},
                                 {"round_bytes_down", plan.bytes_down},
                                 {"round_bytes_up", plan.bytes_up},
                                 {"setup_seconds", plan.setup_seconds},
                                 {"round_seconds", plan.round_seconds},
                                 {"evaluation_seconds", plan.evaluation_seconds},
                                 {"seconds", plan.seconds},
                                 {"how", plan.how}};
  for (const SplitChoice& cut : plan.cuts) {
    json["cuts"].push_back(
        {{"layers", cut.layers}, {"client_memory", cut.client_memory}, {"server_memory", cut.server_memory}});
  }
  if (!plan.cuts.empty()) json["cut_bytes"] = plan.cut_bytes;
  if (plan.suggested_layers) json["suggested_layers"] = *plan.suggested_layers;
  if (plan.emulated_seconds) {
    json["emulated_round_seconds"] = *plan.emulated_round_seconds;
    json["emulated_seconds"] = *plan.emulated_seconds;
    json["device_memory"] = plan.device_memory;
  }
  return json.dump(2) + "\n";
}

}  // namespace chorus::inline experiment
