#include "apps/experiment/kernel_warm_up.h"

#include <filesystem>

#include "application/models/kernel_values.h"
#include "apps/experiment/task_model.h"
#include "core/base/error.h"
#include "core/files/cache_folder.h"
#include "core/files/checked_file.h"

namespace chorus::inline experiment {

KernelValues kernels_of(const ExperimentConfig& config) {
  if (config.device == "cpu" || config.federation.kernels != FederationConfig::Kernels::kFast) return {};
  const std::filesystem::path folder = cache_folder(config.encoding.cache);
  if (!folder.empty()) {
    const auto path = [folder](const std::string& key) { return folder / "kernels" / key; };
    set_kernel_store({[path](const std::string& key) { return read_checked(path(key)); },
                      [path](const std::string& key, std::string_view image) { write_checked(path(key), image); }});
  }
  try {
    const bool mixed = config.trainer.precision == TrainerConfig::Precision::kBFloat16;
    return kernel_values(config.model.from.empty()
                             ? fresh_config(config.model, 1)
                             : ModelConfig::read(std::filesystem::path(config.model.from) / "config.json"),
                         mixed);
  } catch (const Error&) {  // reported where the model is loaded
    return {};
  }
}

}  // namespace chorus::inline experiment
