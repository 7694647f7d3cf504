#include "application/models/ops/lookup.h"

#include <torch/autograd.h>

#include "application/models/ops/gpu_arguments.h"
#include "application/models/ops/lookup_gpu.h"
#include "application/models/ops/row_kernels.h"
#include "core/device/backend.h"
#include "core/device/kernels.h"
#include "core/device/second_order.h"

namespace chorus::inline ops {
namespace {

void add_looked_up_cpu(const at::Tensor& rows, const at::Tensor& ids, const at::Tensor& tables, std::int64_t padding) {
  const std::int64_t tokens = ids.size(1), width = rows.size(2);
  const auto* id = ids.data_ptr<std::int64_t>();
  const float* from = rows.data_ptr<float>();
  for (std::int64_t c = 0; c < ids.size(0); ++c) {
    float* table = tables[c].data_ptr<float>();
    for (std::int64_t t = 0; t < tokens; ++t, ++id, from += width) {
      if (*id != padding) add_row(table + *id * width, from, width);
    }
  }
}

// On a GPU, index_put_ sorts and scatter_add_ adds atomically.
void add_looked_up_reference(const at::Tensor& rows, const at::Tensor& ids, const at::Tensor& tables,
                             std::int64_t padding) {
  const at::Tensor counted = padding < 0 ? rows : rows.masked_fill(ids.eq(padding).unsqueeze(2), 0);
  at::Tensor sums = tables;
  if (deterministic()) {
    const at::Tensor client = torch::arange(ids.size(0), ids.options()).unsqueeze(1).expand_as(ids);
    sums.index_put_({client, ids}, counted.to(sums.scalar_type()), /*accumulate=*/true);
  } else {
    sums.scatter_add_(1, ids.unsqueeze(2).expand({-1, -1, rows.size(2)}), counted.to(sums.scalar_type()));
  }
}

// LibTorch has no such gather whose gradient stays one dense tensor.
class LookUp : public torch::autograd::Function<LookUp> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& tables, const at::Tensor& ids,
                            std::int64_t padding, const c10::intrusive_ptr<GradientTarget>& target) {
    context->save_for_backward({ids, tables});
    GradientTarget::keep(*context, target);
    context->saved_data["padding"] = padding;
    // One launch for all clients; on a CPU, copying whole rows is faster.
    if (!tables.is_cpu()) return tables.gather(1, ids.unsqueeze(2).expand({-1, -1, tables.size(2)}));
    if (tables.size(0) == 1) return tables[0].index_select(0, ids[0]).unsqueeze(0);
    std::vector<at::Tensor> parts;
    for (std::int64_t c = 0; c < tables.size(0); ++c) parts.push_back(tables[c].index_select(0, ids[c]));
    return torch::stack(parts);
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list outputs) {
    const auto saved = context->get_saved_variables();
    const at::NoGradGuard no_grad;
    const at::Tensor &rows = outputs[0], &ids = saved[0], &sums = saved[1].grad();
    const std::int64_t padding = context->saved_data["padding"].toInt();
    if (!GradientTarget::take_kept(*context, sums)) sums.zero_();
    if (rows.is_cpu()) {  // this loop is the reference, too
      add_looked_up_cpu(rows.contiguous(), ids.contiguous(), sums, padding);
    } else if (backend_for(rows, {.gpu = gpu_rows_fit(rows)}) == Backend::kGpu) {
      add_looked_up_gpu(rows, ids, sums, padding);
    } else {
      add_looked_up_reference(rows, ids, sums, padding);
    }
    return {at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

class RepeatRows : public torch::autograd::Function<RepeatRows> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& rows) {
    context->save_for_backward({rows});
    context->saved_data["shape"] = x.sizes().vec();
    return x.index_select(0, rows);
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const std::vector<std::int64_t> shape = context->saved_data["shape"].toIntVector();
    const at::Tensor rows = context->get_saved_variables()[0];
    return {sum_rows(gradients[0].flatten(1), rows, shape[0]).view(shape), at::Tensor()};
  }
};

}  // namespace

at::Tensor look_up(const at::Tensor& tables, const at::Tensor& ids, std::int64_t padding,
                   const c10::intrusive_ptr<GradientTarget>& target) {
  if (!SecondOrder::active()) return LookUp::apply(tables, ids, padding, target);
  const at::Tensor rows = tables.gather(1, ids.unsqueeze(2).expand({-1, -1, tables.size(2)}));
  return padding < 0 ? rows : torch::where(ids.eq(padding).unsqueeze(2), rows.detach(), rows);
}

at::Tensor repeat_rows(const at::Tensor& x, const at::Tensor& rows) {
  return SecondOrder::active() ? x.index_select(0, rows) : RepeatRows::apply(x, rows);
}

at::Tensor sum_rows(const at::Tensor& x, const at::Tensor& owner, std::int64_t count) {
  if (x.is_cpu() || !deterministic()) return torch::zeros({count, x.size(1)}, x.options()).index_add_(0, owner, x);
  // A matmul with a one-hot matrix, because index_add_ adds atomically on a GPU.
  const at::Tensor index = torch::arange(count, owner.options()).unsqueeze(1);
  return torch::mm(index.eq(owner.unsqueeze(0)).to(x.scalar_type()), x);
}

}  // namespace chorus::inline ops
