#include <fmt/format.h>
#include <sys/statvfs.h>
#include <torch/cuda.h>
#include <torch/version.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "apps/cli/cli.h"
#include "apps/experiment/machine.h"
#include "core/config/registry.h"
#include "core/console/terminal.h"
#include "core/console/text_table.h"
#include "core/files/cache_folder.h"
#include "infrastructure/tracking/report/page.h"

namespace chorus::inline cli {
namespace {

namespace fs = std::filesystem;

/// One line about the machine, and what to do where it will be slow or fail.
struct Finding {
  std::string what, value, advice{};
};

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

/// Processors that this process may use: containers often have fewer than the machine.
int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

/// Cores' worth of time that the control group grants; 0: no limit.
double granted_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  return std::strtod(quota.c_str(), nullptr) / period;
}

Finding instructions() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  std::string names;
  const bool avx2 = __builtin_cpu_supports("avx2") != 0, avx512 = __builtin_cpu_supports("avx512f") != 0;
  if (avx2) names += " AVX2";
  if (__builtin_cpu_supports("fma") != 0) names += " FMA";
  if (avx512) names += " AVX-512";
  if (__builtin_cpu_supports("avx512vnni") != 0) names += " VNNI";
  return {"instruction sets", names.empty() ? "SSE only" : names.substr(1),
          avx2 ? "" : "without AVX2 training takes several times as long"};
#else
  return {"instruction sets", "not x86-64", "only LibTorch's own kernels are optimized for this processor"};
#endif
}

Finding cores() {
  const int usable = usable_cores();
  const double granted = granted_cores();
  std::string advice;
  if (granted > 0 && granted < usable) {
    advice = fmt::format("the control group grants {:.1f} cores; set federation.workers to {}", granted,
                         std::max(1, static_cast<int>(granted)));
  }
  return {"cores", fmt::format("{} ({})", usable, processor_name()), advice};
}

Finding memory() {
  const double bytes = available_memory();
  return {"free memory", fmt::format("{:.1f} GB", bytes / 1e9),
          bytes < 4e9 ? "BERT-base needs about 4 GB; train adapters or LoRA, or the small model" : ""};
}

Finding disk(const std::string& what, const fs::path& folder) {
  std::error_code error;
  fs::path existing = fs::absolute(folder, error);
  while (!fs::exists(existing, error) && existing.has_relative_path()) existing = existing.parent_path();
  struct statvfs info {};
  if (::statvfs(existing.c_str(), &info) != 0) return {what, "unknown"};
  const double bytes = static_cast<double>(info.f_bavail) * static_cast<double>(info.f_frsize);
  const bool writable = ::access(existing.c_str(), W_OK) == 0;
  return {what, fmt::format("{:.1f} GB free", bytes / 1e9),
          !writable     ? fmt::format("{} cannot be written", existing.string())
          : bytes < 2e9 ? "a run of BERT-base writes about 1.5 GB of checkpoints"
                        : ""};
}

Finding gpu() {
  if (!torch::cuda::is_available()) {
    const bool seen = fs::exists("/dev/nvidia0");
    return {"GPU", seen ? "there is one, but LibTorch cannot use it" : "none",
            seen ? "this build's LibTorch has no CUDA; see docs/how-to/build_for_a_gpu.md" : ""};
  }
  return {"GPU",
          fmt::format("{} CUDA device{}", torch::cuda::device_count(), torch::cuda::device_count() == 1 ? "" : "s"),
          "set device=cuda to use it"};
}

Finding threads() {
  std::string set, todo;
  const auto cores = static_cast<long>(std::thread::hardware_concurrency());
  for (const char* name : {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"}) {
    const char* value = std::getenv(name);
    if (value == nullptr) continue;
    set += fmt::format("{}{}={}", set.empty() ? "" : " ", name, value);
    const long threads = std::strtol(value, nullptr, 10);
    if (todo.empty() && threads > 0 && threads < cores) {
      todo = fmt::format("training is slow on {} of {} cores: unset {}", threads, cores, name);
    }
  }
  return {"thread settings", set.empty() ? "none, which is right" : set, todo};
}

Finding missing_parts() {
  std::string names;
  for (const std::string& kind : RegistryIndex::global().kinds()) {
    for (const RegistryEntry* entry : RegistryIndex::global().entries(kind)) {
      if (!entry->unavailable.empty())
        names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", entry->name, entry->unavailable);
    }
  }
  if (kPage.page.empty())
    names += std::string(names.empty() ? "" : ", ") + "report and dashboard (esbuild was missing)";
  return {"left out of this build", names.empty() ? "nothing" : names,
          names.empty() ? "" : "run tools/bootstrap program, then make program"};
}

void doctor(bool json) {
  std::string libtorch = fmt::format("{}", TORCH_VERSION);
  const std::vector<Finding> findings = {{"Chorus", CHORUS_VERSION},
                                         {"LibTorch", libtorch},
                                         cores(),
                                         instructions(),
                                         memory(),
                                         gpu(),
                                         threads(),
                                         disk("disk here", "."),
                                         disk("disk of the cache", cache_folder("auto")),
                                         missing_parts()};
  if (json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Finding& finding : findings) {
      list.push_back({{"what", finding.what}, {"value", finding.value}, {"advice", finding.advice}});
    }
    fmt::print("{}\n", list.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    return;
  }
  TextTable table({{"what"}, {"here"}, {"what to do"}});
  for (const Finding& finding : findings) table.add({finding.what, finding.value, finding.advice});
  fmt::print("{}", table.render(terminal_columns(STDOUT_FILENO, 120)));
}

}  // namespace

void add_doctor(CLI::App& app) {
  CLI::App* command = app.add_subcommand("doctor", "Say what this machine has, and what will be slow on it");
  const auto json = std::make_shared<bool>(false);
  command->group(kLookAround);
  command->add_flag("--json", *json, "Print JSON");
  command->callback([json] { doctor(*json); });
}

}  // namespace chorus::inline cli
