#include "apps/experiment/machine.h"

#include <malloc.h>
#include <torch/cuda.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/console/log.h"
#include "core/device/kernels.h"
#include "core/device/torch_runtime.h"

namespace chorus::inline experiment {
namespace {

/// A line "Key:  123 kB" of a file of /proc, in bytes; 0 when there is none.
double proc_bytes(const char* path, const std::string& wanted) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(wanted)) return std::strtod(line.c_str() + wanted.size(), nullptr) * 1024;
  }
  return 0;
}

// Usable GPU memory; that of a typical GPU when there is none here (to plan a run).
double gpu_memory() {
  const double free = free_gpu_memory();
  return free > 0 ? 0.7 * free : 20e9;
}

}  // namespace

std::string gpu_of(const Transport::Place& place, const char* visible, std::size_t count) {
  std::vector<std::string> gpus;
  if (visible != nullptr) {
    std::istringstream list(visible);
    for (std::string gpu; std::getline(list, gpu, ',');) gpus.push_back(gpu);
  } else {
    while (gpus.size() < count) gpus.push_back(std::to_string(gpus.size()));
  }
  if (gpus.size() < 2 || place.beside < 2) return "";
  return gpus[static_cast<std::size_t>(place.local) % gpus.size()];
}

void use_gpu_of(const Transport::Place& place) {
  constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";
  std::size_t count = 0;  // of /dev/nvidia0, /dev/nvidia1, ...
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", none)) {
    const std::string name = entry.path().filename().string();
    constexpr std::string_view kPrefix = "nvidia";
    if (name.size() > kPrefix.size() && name.starts_with(kPrefix) &&
        std::all_of(name.begin() + kPrefix.size(), name.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      ++count;
    }
  }
  const std::string mine = gpu_of(place, std::getenv(kVisible), count);
  if (mine.empty()) return;
  ::setenv(kVisible, mine.c_str(), 1);
  Log("run").info("process {} of this machine uses GPU {}", place.local, mine);
}

at::Device device_named(const std::string& name) {
  if (name == "cpu") return at::kCPU;
  if (!torch::cuda::is_available()) {
    throw ConfigError("device: cuda, but this machine has no usable GPU, or LibTorch was built without CUDA");
  }
  return {at::kCUDA, 0};
}

void use_kernels_of(const FederationConfig& config) {
  use_fast_kernels(config.kernels == FederationConfig::Kernels::kFast);
  use_deterministic(config.deterministic);
}

double available_memory() {
  const double bytes = proc_bytes("/proc/meminfo", "MemAvailable:");
  return bytes > 0 ? bytes : 4e9;
}

double peak_memory() { return proc_bytes("/proc/self/status", "VmHWM:"); }

void forget_peak_memory() {
#ifdef __GLIBC__
  ::malloc_trim(0);  // returns freed memory to the system
#endif
  std::ofstream("/proc/self/clear_refs") << 5;
}

MachineShare machine_share(const ExperimentConfig& config, bool gpu, double client_bytes) {
  const FederationConfig& wanted = config.federation;
  const std::size_t cores = std::max(std::thread::hardware_concurrency(), 1U);
  MachineShare share;
  share.workers = wanted.workers > 0 ? static_cast<std::size_t>(wanted.workers) : gpu ? 1 : cores;
  share.threads = wanted.threads > 0 ? static_cast<int>(wanted.threads) : 1;
  if (wanted.cohort_batch != "auto") {
    share.cohort_batch = wanted.batch_given();
    return share;
  }
  // On a CPU a client's values stay in the cache best when it trains alone; on a GPU the largest batch is the fastest.
  // The number of workers is not considered: it must not change a bit.
  constexpr double kMost = 64;
  if (gpu)
    share.cohort_batch = static_cast<std::size_t>(std::clamp(std::floor(gpu_memory() / client_bytes), 1.0, kMost));
  return share;
}

}  // namespace chorus::inline experiment
