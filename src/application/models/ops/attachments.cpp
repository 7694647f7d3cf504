#include "application/models/ops/attachments.h"

namespace chorus {

at::Tensor Adapter::operator()(const Params& params, const at::Tensor& f, const at::Tensor& x, const Norm* norm) const {
  at::Tensor h = f;
  for (const Unit& unit : units) {
    at::Tensor seen = h;
    if (sees_residual) seen = norm != nullptr ? (*norm)(params, h + x) : h + x;
    h = h + unit.up(params, torch::relu(unit.down(params, seen)));
  }
  return h;
}

}  // namespace chorus
