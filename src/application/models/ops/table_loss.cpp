#include "application/models/ops/table_loss.h"

#include <ATen/Parallel.h>
#include <torch/autograd.h>

#include <algorithm>
#include <numeric>

#include "application/models/ops/gradient_target.h"
#include "application/models/ops/matrix_product.h"
#include "application/models/ops/row_kernels.h"
#include "core/kernels.h"

namespace chorus {
namespace {

// The rows that count, client after client, and one client's part of a tensor.
struct CountedRows {
  std::vector<std::int64_t> counts;  // of each client

  template <typename Work>
  void each_client(const Work& work) const {
    std::int64_t begin = 0;
    for (std::size_t c = 0; c < counts.size(); begin += counts[c++]) {
      work(static_cast<std::int64_t>(c), begin, counts[c]);
    }
  }
};

const float* row_of_client(const at::Tensor& parameter, std::int64_t client, std::int64_t dimensions) {
  return parameter.data_ptr<float>() + (parameter.dim() > dimensions ? client * parameter.stride(0) : 0);
}

class TableLoss : public torch::autograd::Function<TableLoss> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& table,
                            const at::Tensor& bias, const at::Tensor& labels, std::int64_t ignored,
                            const c10::intrusive_ptr<GradientTarget>& target) {
    const std::int64_t clients = x.size(0), width = x.size(2), words = table.size(-2);
    const at::Tensor counted = labels.ne(ignored);
    const at::Tensor where = counted.flatten().nonzero().squeeze(1), sizes = counted.sum(1);
    const at::Tensor rows = x.reshape({-1, width}).index_select(0, where);
    const at::Tensor answers = labels.flatten().index_select(0, where);
    const CountedRows all{{sizes.data_ptr<std::int64_t>(), sizes.data_ptr<std::int64_t>() + clients}};
    at::Tensor logits = torch::empty({rows.size(0), words}, x.options());
    at::Tensor result = torch::zeros({clients}, x.options()), losses = torch::empty({rows.size(0)}, x.options());
    all.each_client([&](std::int64_t c, std::int64_t begin, std::int64_t count) {
      if (count == 0) return;
      float* first = logits.data_ptr<float>() + begin * words;
      MatrixProduct{.m = count, .n = words, .k = width, .turn_b = true}(
          {rows.data_ptr<float>() + begin * width, width}, {row_of_client(table, c, 2), width}, first, words);
      const float* shift = bias.numel() > 0 ? row_of_client(bias, c, 1) : nullptr;
      float* loss = losses.data_ptr<float>() + begin;
      const auto* answer = answers.data_ptr<std::int64_t>() + begin;
      at::parallel_for(0, count, std::max<std::int64_t>(1, 16384 / words), [&](std::int64_t from, std::int64_t to) {
        for (std::int64_t r = from; r < to; ++r) {
          if (shift != nullptr) add_row(first + r * words, shift, words);
          loss[r] = cross_entropy_row(first + r * words, words, answer[r]);
        }
      });
      result.data_ptr<float>()[c] = std::accumulate(loss, loss + count, 0.0F) / static_cast<float>(count);
    });
    context->save_for_backward({rows, table, bias, where, logits});
    context->saved_data["counts"] = all.counts;
    context->saved_data["shape"] = x.sizes().vec();
    if (target) context->saved_data["target"] = torch::IValue::make_capsule(target);
    context->saved_data["x"] = x.requires_grad();
    return result;
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &rows = saved[0], &table = saved[1], &bias = saved[2], &where = saved[3], &slopes = saved[4];
    const CountedRows all{context->saved_data["counts"].toIntVector()};
    const at::NoGradGuard no_grad;
    const at::Tensor up = gradients[0].contiguous();
    const std::int64_t width = rows.size(1), words = slopes.size(1);
    bool add = true;
    if (table.requires_grad()) {
      add = c10::static_intrusive_pointer_cast<GradientTarget>(context->saved_data["target"].toCapsule())
                ->take(table.grad());
    }
    const bool wanted = context->saved_data["x"].toBool();
    at::Tensor back = wanted ? torch::empty_like(rows) : at::Tensor();
    all.each_client([&](std::int64_t c, std::int64_t begin, std::int64_t count) {
      if (count == 0) {
        if (!add) table.grad()[c].zero_();
        return;
      }
      const float factor = up.data_ptr<float>()[c] / static_cast<float>(count);
      const MatrixProduct::Rows of{slopes.data_ptr<float>() + begin * words, words};
      if (table.requires_grad()) {
        MatrixProduct{.m = words, .n = width, .k = count, .scale = factor, .turn_a = true, .add = add}(
            of, {rows.data_ptr<float>() + begin * width, width}, table.grad()[c].data_ptr<float>(), width);
      }
      if (bias.numel() > 0 && bias.requires_grad()) {
        bias.grad()[c].add_(slopes.narrow(0, begin, count).sum(0), factor);
      }
      if (wanted) {
        MatrixProduct{.m = count, .n = width, .k = words, .scale = factor}(
            of, {row_of_client(table, c, 2), width}, back.data_ptr<float>() + begin * width, width);
      }
    });
    torch::autograd::tensor_list result(6);
    if (wanted) {
      const std::vector<std::int64_t> shape = context->saved_data["shape"].toIntVector();
      result[0] = torch::zeros({shape[0] * shape[1], width}, rows.options()).index_copy_(0, where, back).view(shape);
    }
    return result;
  }
};

}  // namespace

at::Tensor table_loss(const Params& params, const LanguageHead& head, const at::Tensor& x, const at::Tensor& labels,
                      std::int64_t ignored) {
  const bool possible = fast_kernels() && MatrixProduct::possible() && x.is_cpu() && x.scalar_type() == at::kFloat &&
                        !params.halves().defined();
  if (!possible) return {};
  return TableLoss::apply(x, params[head.table], head.bias.exists() ? params[head.bias] : torch::empty({0}), labels,
                          ignored, gradient_target(params, head.table, 1));
}

}  // namespace chorus
