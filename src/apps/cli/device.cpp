#include <fmt/format.h>
#include <torch/cuda.h>

#include "apps/cli/cli.h"
#include "core/base/error.h"

namespace chorus::inline cli {

at::Device device_named(const std::string& name) {
  if (name == "cpu") return at::kCPU;
  if (name == "cuda") {
    if (!torch::cuda::is_available()) {
      throw ConfigError("--device cuda: no usable GPU, or LibTorch was built without CUDA; use --device cpu");
    }
    return {at::kCUDA, 0};
  }
  throw ConfigError(fmt::format("--device {}: unknown device; use cpu or cuda", name));
}

}  // namespace chorus::inline cli
