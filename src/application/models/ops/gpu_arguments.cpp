#include "application/models/ops/gpu_arguments.h"

#include <limits>

#include "core/device/backend.h"

namespace chorus::inline ops {
namespace {

bool in_fours(const at::Tensor& x) {
  return reinterpret_cast<std::uintptr_t>(x.data_ptr()) % 16 == 0 && (x.dim() < 2 || x.stride(0) % 4 == 0);
}

}  // namespace

KernelOption element_option(const char* name) { return {name, {"float", "bf16"}}; }

const char* gpu_element(at::ScalarType type) { return type == at::kBFloat16 ? "bf16" : "float"; }

bool gpu_rows_fit(const at::Tensor& x) {
  constexpr std::int64_t kMostWidth = 16 * kGpuThreads;
  return is_float_or_bfloat16(x) && x.size(-1) <= kMostWidth && x.numel() < std::numeric_limits<std::int32_t>::max();
}

MaskArgs mask_args(const Dropout::Site& site) {
  return {.seeds = site.threshold == 0 ? nullptr : site.seeds.data_ptr<std::int64_t>(),
          .call = site.call,
          .threshold = static_cast<u32>(site.threshold),
          .scale = site.scale,
          .rows = site.rows.defined() ? site.rows.data_ptr<std::int64_t>() : nullptr};
}

AlignedRow::AlignedRow(const at::Tensor& tensor)
    : aligned_(tensor.defined() && !in_fours(tensor) ? tensor.clone(at::MemoryFormat::Contiguous) : tensor) {}

ClientRow AlignedRow::row() const {
  if (!aligned_.defined()) return {nullptr, 0};
  return {aligned_.data_ptr<float>(), aligned_.dim() == 2 ? aligned_.stride(0) : 0};
}

}  // namespace chorus::inline ops
