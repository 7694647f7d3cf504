#include "application/trainer/mixed_precision.h"

#include <ATen/autocast_mode.h>
#include <torch/version.h>

namespace chorus {
namespace {

void set_autocast(bool on) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
  at::autocast::set_autocast_dtype(at::kCUDA, at::kBFloat16);
  at::autocast::set_autocast_enabled(at::kCUDA, on);
#else
  at::autocast::set_autocast_gpu_dtype(at::kBFloat16);
  at::autocast::set_enabled(on);
#endif
}

}  // namespace

MixedPrecision::MixedPrecision(bool on, at::Device device) : on_(on && device.is_cuda()) {
  if (on_) set_autocast(true);
}

MixedPrecision::~MixedPrecision() {
  if (!on_) return;
  set_autocast(false);
  at::autocast::clear_cache();
}

}  // namespace chorus
