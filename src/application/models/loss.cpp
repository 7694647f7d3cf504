#include "application/models/loss.h"

#include <ATen/Parallel.h>
#include <torch/autograd.h>

#include <algorithm>
#include <cmath>

#include "application/models/ops/cross_entropy_gpu.h"
#include "application/models/ops/row_kernels.h"
#include "core/device/backend.h"

namespace chorus::inline models {
namespace {

// Mean of values [C, M] over counted [C, M].
at::Tensor mean_where(const at::Tensor& values, const at::Tensor& counted) {
  const at::Tensor weights = counted.to(values.scalar_type());
  return (values * weights).sum(1) / weights.sum(1).clamp_min(1);
}

// One end of the span: scores [N, L], positions [C, B].
at::Tensor place_loss(const at::Tensor& scores, const at::Tensor& places, const Packing& packing) {
  const at::Tensor lengths = packing.last_token() - packing.first_token() + 1;
  const at::Tensor counted = packing.sequence_valid().logical_and(places.ge(0)).logical_and(places.lt(lengths));
  const at::Tensor log_probabilities = torch::log_softmax(scores, -1);  // [N, L]
  // One row per sequence slot [C * B]; slots without a sequence point at row 0 and are not counted.
  const at::Tensor slot = packing.client_of() * packing.sequences() + packing.sequence_of();
  at::Tensor row = torch::zeros({packing.clients() * packing.sequences()}, slot.options());
  row.index_copy_(0, slot, torch::arange(slot.size(0), slot.options()));
  const at::Tensor chosen = log_probabilities.index_select(0, row).gather(
      1, torch::where(counted, places, torch::zeros_like(places)).view({-1, 1}));
  return mean_where(chosen.view(places.sizes()).neg(), counted);
}

// Logits [C, M, V], labels [C, M]. One pass over the logits forward and one backward; skips ignored rows.
class CrossEntropyCpu : public torch::autograd::Function<CrossEntropyCpu> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& labels) {
    const at::Tensor from = logits.contiguous();
    const std::int64_t clients = from.size(0), rows = from.size(1), width = from.size(2);
    at::Tensor sums = torch::zeros({clients, rows, 2}, from.options());  // ExpSum
    at::Tensor losses = torch::zeros({clients, rows}, from.options());
    const auto* label = labels.data_ptr<std::int64_t>();
    const float* x = from.data_ptr<float>();
    for_rows(clients * rows, width, [&](std::int64_t r) {
      if (label[r] == kIgnore) return;
      const ExpSum sum = exp_sum_row(x + r * width, width);
      sums.data_ptr<float>()[2 * r] = sum.top;
      sums.data_ptr<float>()[2 * r + 1] = sum.sum;
      losses.data_ptr<float>()[r] = std::log(sum.sum) + (sum.top - x[r * width + label[r]]);
    });
    const at::Tensor counts = labels.ne(kIgnore).sum(1).clamp_min(1).to(at::kFloat);
    context->save_for_backward({from, labels, sums, counts});
    return losses.sum(1) / counts;
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &from = saved[0], &labels = saved[1], &sums = saved[2];
    const at::Tensor factors = (gradients[0] / saved[3]).contiguous();  // [C]
    const std::int64_t rows = from.size(1), width = from.size(2);
    at::Tensor result = torch::empty_like(from);
    const auto* label = labels.data_ptr<std::int64_t>();
    for_rows(from.size(0) * rows, width, [&](std::int64_t r) {
      float* dx = result.data_ptr<float>() + r * width;
      if (label[r] == kIgnore) {
        std::fill_n(dx, width, 0.0F);
        return;
      }
      const float* sum = sums.data_ptr<float>() + 2 * r;
      cross_entropy_gradient_row(from.data_ptr<float>() + r * width, width, label[r], {sum[0], sum[1]},
                                 factors.data_ptr<float>()[r / rows], dx);
    });
    return {result, at::Tensor()};
  }

 private:
  template <typename Work>
  static void for_rows(std::int64_t rows, std::int64_t width, const Work& work) {
    at::parallel_for(0, rows, std::max<std::int64_t>(1, 16384 / width), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) work(r);
    });
  }
};

// The same on a GPU.
class CrossEntropyGpu : public torch::autograd::Function<CrossEntropyGpu> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& labels) {
    const at::Tensor from = logits.contiguous();
    const CrossEntropyResult loss = cross_entropy_gpu(from, labels, kIgnore);
    context->save_for_backward({from, labels, loss.logs, loss.counts});
    return loss.loss;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    return {cross_entropy_gradient_gpu(gradients[0], saved[0], saved[1], {{}, saved[2], saved[3]}, kIgnore),
            at::Tensor()};
  }
};

}  // namespace

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels) {
  const bool lies_flat = labels.is_contiguous();
  switch (
      backend_for(logits, {.cpu = is_float(logits) && lies_flat, .gpu = cross_entropy_gpu_fits(logits) && lies_flat})) {
    case Backend::kCpu:
      return CrossEntropyCpu::apply(logits, labels);
    case Backend::kGpu:
      return CrossEntropyGpu::apply(logits, labels);
    case Backend::kReference:
      break;
  }
  return cross_entropy_reference(logits, labels);
}

at::Tensor cross_entropy_reference(const at::Tensor& logits, const at::Tensor& labels) {
  const at::Tensor counted = labels.ne(kIgnore);
  const at::Tensor safe = labels.masked_fill(counted.logical_not(), 0);
  const at::Tensor chosen = torch::log_softmax(logits.to(at::kFloat), -1).gather(-1, safe.unsqueeze(-1)).squeeze(-1);
  return mean_where(chosen.neg(), counted);
}

at::Tensor soft_cross_entropy(const at::Tensor& logits, const at::Tensor& probabilities, double temperature) {
  const at::Tensor wide = logits.to(at::kFloat);
  const at::Tensor answers = torch::log_softmax(temperature == 1 ? wide : wide / temperature, -1);
  const at::Tensor divergence = (torch::xlogy(probabilities, probabilities) - probabilities * answers).sum(-1);
  return mean_where(divergence, probabilities.sum(-1).gt(0)) * (temperature * temperature);
}

at::Tensor squared_error(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& valid) {
  const at::Tensor error = (logits.squeeze(-1) - targets).pow(2);
  return mean_where(torch::where(valid, error, torch::zeros_like(error)), valid);
}

at::Tensor span_loss(const at::Tensor& logits, const at::Tensor& starts, const at::Tensor& ends,
                     const Packing& packing) {
  const at::Tensor place = torch::arange(packing.longest(), starts.options()).unsqueeze(0);
  const at::Tensor lengths = (packing.last_token() - packing.first_token() + 1)
                                 .flatten()
                                 .index_select(0, packing.client_of() * packing.sequences() + packing.sequence_of());
  const at::Tensor beyond = place.ge(lengths.unsqueeze(1)).unsqueeze(-1);  // [N, L, 1]
  const at::Tensor scores = packing.unpack(logits).to(at::kFloat).masked_fill(beyond, kHiddenScore);
  return (place_loss(scores.select(2, 0), starts, packing) + place_loss(scores.select(2, 1), ends, packing)) / 2;
}

at::Tensor next_token(const at::Tensor& labels, const Packing& packing) {
  at::Tensor shifted = torch::full_like(labels, kIgnore);
  if (labels.size(1) > 1) shifted.narrow(1, 0, labels.size(1) - 1).copy_(labels.narrow(1, 1, labels.size(1) - 1));
  // A token whose right neighbour begins a sequence (or is in the tail) is the last of its sequence.
  at::Tensor last = torch::ones_like(labels, labels.options().dtype(at::kBool));
  if (labels.size(1) > 1) {
    const std::int64_t count = labels.size(1) - 1;
    last.narrow(1, 0, count).copy_(packing.positions().narrow(1, 1, count).eq(0));
  }
  return shifted.masked_fill(last.logical_or(packing.token_valid().logical_not()), kIgnore);
}

}  // namespace chorus::inline models
