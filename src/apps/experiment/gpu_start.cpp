#include "apps/experiment/gpu_start.h"

#include "application/models/kernel_values.h"
#include "apps/experiment/task_model.h"
#include "core/base/error.h"
#include "core/files/cache_folder.h"
#include "core/files/checked_file.h"

namespace chorus::inline experiment {
namespace {

namespace fs = std::filesystem;

KernelPrecision precision_of(const TrainerConfig& trainer) {
  switch (trainer.precision) {
    case TrainerConfig::Precision::kBFloat16:
      return KernelPrecision::kBFloat16;
    case TrainerConfig::Precision::kTf32:
      return KernelPrecision::kTf32;
    default:
      return KernelPrecision::kFloat32;
  }
}

void keep_kernels_in(const fs::path& folder) {
  const auto path = [folder](const std::string& key) { return folder / "kernels" / key; };
  set_kernel_store({[path](const std::string& key) { return read_checked(path(key)); },
                    [path](const std::string& key, std::string_view image) { write_checked(path(key), image); }});
}

// Mistakes in the model's configuration are reported where the model is loaded.
KernelValues values_for(const ExperimentConfig& config) {
  if (config.federation.kernels != FederationConfig::Kernels::kFast) return {};
  try {
    const ModelConfig network = config.model.from.empty()
                                    ? fresh_config(config.model, 1)
                                    : ModelConfig::read(fs::path(config.model.from) / "config.json");
    return kernel_values(network, precision_of(config.trainer));
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

std::unique_ptr<GpuWarmUp> start_gpu(const ExperimentConfig& config, at::Device device) {
  if (!device.is_cuda()) return nullptr;
  if (const fs::path folder = cache_folder(config.encoding.cache); !folder.empty()) keep_kernels_in(folder);
  return std::make_unique<GpuWarmUp>(device, values_for(config));
}

}  // namespace chorus::inline experiment
