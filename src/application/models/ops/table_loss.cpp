#include "application/models/ops/table_loss.h"

#include <ATen/Parallel.h>
#include <torch/autograd.h>

#include <algorithm>
#include <numeric>

#include "application/models/ops/gradient_target.h"
#include "application/models/ops/matrix_product.h"
#include "application/models/ops/row_kernels.h"
#include "core/device/backend.h"
#include "core/tensor/bfloat16.h"

namespace chorus::inline ops {
namespace {

// The rows with counted labels, client by client.
struct CountedRows {
  std::vector<std::int64_t> counts;  // per client

  template <typename Work>
  void each_client(const Work& work) const {
    std::int64_t begin = 0;
    for (std::size_t c = 0; c < counts.size(); begin += counts[c++]) {
      work(static_cast<std::int64_t>(c), begin, counts[c]);
    }
  }
};

// The offset of a client's slice of a parameter that has `dimensions` dimensions per client.
std::int64_t begin_of(const at::Tensor& parameter, std::int64_t client, std::int64_t dimensions) {
  return parameter.dim() > dimensions ? client * parameter.stride(0) : 0;
}

std::byte* row_of(const at::Tensor& rows, std::int64_t row) {
  return reinterpret_cast<std::byte*>(rows.data_ptr<at::BFloat16>() + row * rows.stride(0));
}

class TableLoss : public torch::autograd::Function<TableLoss> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& table,
                            const at::Tensor& bias, const at::Tensor& shadow, const at::Tensor& labels,
                            std::int64_t ignored, const c10::intrusive_ptr<GradientTarget>& target) {
    const bool bfloat16 = shadow.numel() > 0;
    const at::Tensor& stored = bfloat16 ? shadow : table;
    const std::int64_t clients = x.size(0), width = x.size(2), words = table.size(-2);
    const at::Tensor counted = labels.ne(ignored);
    const at::Tensor where = counted.flatten().nonzero().squeeze(1), sizes = counted.sum(1);
    const at::Tensor chosen = x.reshape({-1, width}).index_select(0, where);
    const at::Tensor rows = bfloat16 ? as_bfloat16(chosen) : chosen;
    const at::Tensor answers = labels.flatten().index_select(0, where);
    const CountedRows all{{sizes.data_ptr<std::int64_t>(), sizes.data_ptr<std::int64_t>() + clients}};
    const at::Tensor logits = torch::empty({rows.size(0), words}, x.options());
    const at::Tensor slopes = bfloat16 ? torch::empty_like(logits, at::kBFloat16) : logits;
    at::Tensor result = torch::zeros({clients}, x.options());
    at::Tensor losses = torch::empty({rows.size(0)}, x.options()), sums = torch::empty_like(losses);
    all.each_client([&](std::int64_t c, std::int64_t begin, std::int64_t count) {
      if (count == 0) return;
      float* first = logits.data_ptr<float>() + begin * words;
      MatrixProduct{.m = count, .n = words, .k = width, .transpose_b = true}(
          {rows, begin * width, width}, {stored, begin_of(stored, c, 2), width}, first, words);
      const float* shift = bias.numel() > 0 ? bias.data_ptr<float>() + begin_of(bias, c, 1) : nullptr;
      float* loss = losses.data_ptr<float>() + begin;
      const auto* answer = answers.data_ptr<std::int64_t>() + begin;
      at::parallel_for(0, count, std::max<std::int64_t>(1, 16384 / words), [&](std::int64_t from, std::int64_t to) {
        for (std::int64_t r = from; r < to; ++r) {
          float* row = first + r * words;
          if (shift != nullptr) add_row(row, shift, words);
          const CrossEntropy of = bfloat16 ? cross_entropy_row(row, words, answer[r], row_of(slopes, begin + r))
                                           : cross_entropy_row(row, words, answer[r]);
          loss[r] = of.loss;
          sums.data_ptr<float>()[begin + r] = of.sum;
        }
      });
      result.data_ptr<float>()[c] = std::accumulate(loss, loss + count, 0.0F) / static_cast<float>(count);
    });
    context->save_for_backward({chosen, table, bias, where, slopes, shadow, sums});
    context->saved_data["counts"] = all.counts;
    context->saved_data["shape"] = x.sizes().vec();
    GradientTarget::keep(*context, target);
    context->saved_data["x"] = x.requires_grad();
    return result;
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &rows = saved[0], &table = saved[1], &bias = saved[2], &where = saved[3], &slopes = saved[4];
    const bool bfloat16 = saved[5].numel() > 0;
    const at::Tensor& stored = bfloat16 ? saved[5] : table;
    const CountedRows all{context->saved_data["counts"].toIntVector()};
    const at::NoGradGuard no_grad;
    const at::Tensor up = gradients[0].contiguous();
    const std::int64_t width = rows.size(1), words = slopes.size(1);
    const bool add = !table.requires_grad() || GradientTarget::take_kept(*context, table.grad());
    const bool wanted = context->saved_data["x"].toBool();
    const at::Tensor back = wanted ? torch::empty_like(rows) : at::Tensor();
    all.each_client([&](std::int64_t c, std::int64_t begin, std::int64_t count) {
      if (count == 0) {
        if (!add) table.grad()[c].zero_();
        return;
      }
      // The slopes are not normalised yet; scaling the narrow rows is cheaper than scaling the logits.
      const float factor = up.data_ptr<float>()[c] / static_cast<float>(count);
      const at::Tensor factors = saved[6].narrow(0, begin, count).reciprocal().mul_(factor).unsqueeze(1);
      if (table.requires_grad()) {
        const at::Tensor product = rows.narrow(0, begin, count) * factors;
        const at::Tensor scaled = bfloat16 ? as_bfloat16(product) : product;
        MatrixProduct{.m = words, .n = width, .k = count, .transpose_a = true, .add = add}(
            {slopes, begin * words, words}, {scaled, 0, width}, table.grad()[c].data_ptr<float>(), width);
      }
      if (bias.numel() > 0 && bias.requires_grad()) {
        bias.grad()[c].add_((slopes.narrow(0, begin, count) * factors).sum(0));
      }
      if (wanted) {
        MatrixProduct{.m = count, .n = width, .k = words}({slopes, begin * words, words},
                                                          {stored, begin_of(stored, c, 2), width},
                                                          back.data_ptr<float>() + begin * width, width);
        back.narrow(0, begin, count).mul_(factors);
      }
    });
    torch::autograd::tensor_list result(7);
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
  const at::Tensor& shadow = params.shadow()[head.table];
  const bool possible = shadow.defined() ? MatrixProduct::bfloat16_possible() : MatrixProduct::possible();
  if (backend_for(x, {.cpu = possible && is_float(x)}) != Backend::kCpu) return {};
  const at::Tensor none = torch::empty({0});
  return TableLoss::apply(x, params[head.table], head.bias.exists() ? params[head.bias] : none,
                          shadow.defined() ? shadow : none, labels, ignored, gradient_target(params, head.table, 1));
}

}  // namespace chorus::inline ops
