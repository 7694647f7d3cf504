#include "application/models/ops/attachments.h"

#include "application/models/ops/residual.h"

namespace chorus::inline ops {

at::Tensor Adapter::operator()(const Params& params, const at::Tensor& f, const at::Tensor& x, const Norm* norm) const {
  Dropout none;
  at::Tensor h = f;
  for (const Unit& unit : units) {
    at::Tensor seen = h;
    if (sees_residual) seen = norm != nullptr ? residual_norm(params, *norm, h, x, none, 0) : h + x;
    h = h + unit.up(params, torch::relu(unit.down(params, seen)));
  }
  return h;
}

}  // namespace chorus::inline ops
