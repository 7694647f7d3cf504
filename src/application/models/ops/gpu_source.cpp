#include "application/models/ops/gpu_source.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

namespace chorus {
namespace {

bool in_fours(const at::Tensor& x) {
  return reinterpret_cast<std::uintptr_t>(x.data_ptr()) % 16 == 0 && (x.dim() < 2 || x.stride(0) % 4 == 0);
}

}  // namespace

const char* gpu_type(at::ScalarType type) { return type == at::kBFloat16 ? "bf16" : "float"; }

const GpuKernel& gpu_kernel_for(const char* name, const std::string& defined, const char* source) {
  static std::mutex mutex;
  static std::map<std::string, GpuKernel> known;
  const std::lock_guard lock(mutex);
  const std::string key = name + defined;
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  return known.try_emplace(key, name, fmt::format("{}{}{}", kGpuPrelude, defined, source)).first->second;
}

const std::int64_t* seeds_of(const Dropout::Site& site) {
  return site.threshold == 0 ? nullptr : site.seeds.data_ptr<std::int64_t>();
}

OfClient::OfClient(const at::Tensor& tensor)
    : aligned(tensor.defined() && !in_fours(tensor) ? tensor.clone(at::MemoryFormat::Contiguous) : tensor),
      data(aligned.defined() ? aligned.data_ptr<float>() : nullptr),
      stride(aligned.defined() && aligned.dim() == 2 ? aligned.stride(0) : 0) {}

}  // namespace chorus
