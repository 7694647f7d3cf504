#include "core/device/backend.h"

#include "core/device/kernels.h"
#include "core/device/second_order.h"

namespace chorus::inline device {
namespace {

#ifdef CHORUS_HAS_CUDA
constexpr bool kHasCuda = true;
#else
constexpr bool kHasCuda = false;
#endif

}  // namespace

Backend backend_for(const at::Tensor& x, Supported supported) {
  if (!fast_kernels() || SecondOrder::active()) return Backend::kReference;
  if (supported.cpu && x.is_cpu()) return Backend::kCpu;
  if (kHasCuda && supported.gpu && x.is_cuda()) return Backend::kGpu;
  return Backend::kReference;
}

bool is_float(const at::Tensor& x) { return x.scalar_type() == at::kFloat; }

bool is_float_or_bfloat16(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16;
}

}  // namespace chorus::inline device
