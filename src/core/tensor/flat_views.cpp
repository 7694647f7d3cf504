#include "core/tensor/flat_views.h"

namespace chorus::inline tensor {

at::Tensor aligned_rows(std::int64_t clients, std::int64_t size, at::Device device, at::ScalarType type) {
  const std::int64_t stride = (size + 15) / 16 * 16;
  return torch::empty({clients, stride}, at::TensorOptions(device).dtype(type)).narrow(1, 0, size);
}

at::Tensor view_of(const at::Tensor& flat, const ParamSpec& spec) {
  if (flat.dim() == 1) return flat.narrow(0, spec.offset, spec.count).view(spec.shape);
  return flat.narrow(1, spec.offset, spec.count).unflatten(1, spec.shape.empty() ? at::IntArrayRef{1} : spec.shape);
}

}  // namespace chorus::inline tensor
