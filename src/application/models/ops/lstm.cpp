#include "application/models/ops/lstm.h"

#include <ATen/Parallel.h>
#include <torch/autograd.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "application/models/ops/matrix_product.h"
#include "application/models/ops/row_kernels.h"
#include "core/device/backend.h"

namespace chorus::inline ops {
namespace {

/// The order in which one client's tokens are computed: step by step, in each step all sequences that have not ended,
/// longest first.
struct Order {
  std::vector<std::int64_t> begins;     // the first token of each step; the last entry is the number of tokens
  std::vector<std::int64_t> rows;       // index of each token, in this order, among the client's T
  std::vector<std::int64_t> sequences;  // the client's sequences, sorted

  std::int64_t steps() const { return static_cast<std::int64_t>(begins.size()) - 1; }
  std::int64_t begin(std::int64_t step) const { return begins[static_cast<std::size_t>(step)]; }
  std::int64_t running(std::int64_t step) const { return step < steps() ? begin(step + 1) - begin(step) : 0; }
  std::int64_t tokens() const { return begins.back(); }
};

Order order_of(const std::vector<std::int64_t>& lengths, bool backward) {
  Order order;
  order.sequences.resize(lengths.size());
  std::iota(order.sequences.begin(), order.sequences.end(), 0);
  const auto length = [&](std::int64_t s) { return lengths[static_cast<std::size_t>(s)]; };
  std::stable_sort(order.sequences.begin(), order.sequences.end(),
                   [&](std::int64_t a, std::int64_t b) { return length(a) > length(b); });
  std::vector<std::int64_t> first(lengths.size(), 0);
  std::partial_sum(lengths.begin(), lengths.end() - 1, first.begin() + 1);
  order.begins.push_back(0);
  for (std::int64_t t = 0; t < length(order.sequences[0]); ++t) {
    for (const std::int64_t s : order.sequences) {
      if (length(s) <= t) break;
      order.rows.push_back(first[static_cast<std::size_t>(s)] + (backward ? length(s) - 1 - t : t));
    }
    order.begins.push_back(static_cast<std::int64_t>(order.rows.size()));
  }
  return order;
}

struct Holder : torch::CustomClassHolder {
  explicit Holder(std::vector<Order> of) : orders(std::move(of)) {}
  std::vector<Order> orders;  // one per client
};

// A parameter shared by all clients, or one per client.
const float* of_client(const at::Tensor& parameter, std::int64_t client, std::int64_t dimensions) {
  return parameter.data_ptr<float>() + (parameter.dim() > dimensions ? client * parameter.stride(0) : 0);
}

class LstmScan : public torch::autograd::Function<LstmScan> {
 public:
  static torch::autograd::tensor_list forward(torch::autograd::AutogradContext* context, const at::Tensor& projected,
                                              const at::Tensor& weight, const at::Tensor& bias,
                                              const c10::intrusive_ptr<Holder>& holder, std::int64_t sequences) {
    const at::Tensor from = projected.contiguous();
    const std::int64_t clients = from.size(0), tokens = from.size(1), hidden = from.size(2) / 4;
    std::int64_t most = 0;
    for (const Order& order : holder->orders) most = std::max(most, order.tokens());
    // Per client: gates, c, h.
    at::Tensor kept = torch::empty({clients, most, 6 * hidden}, from.options());
    at::Tensor states = torch::zeros({clients, tokens, hidden}, from.options());
    at::Tensor ends = torch::zeros({clients, sequences, hidden}, from.options());
    const std::vector<float> zeros(static_cast<std::size_t>(hidden), 0.0F);
    at::parallel_for(0, clients, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) {
        const Order& order = holder->orders[static_cast<std::size_t>(c)];
        const Parts parts(kept, c, order.tokens(), hidden);
        const float* input = from.data_ptr<float>() + c * tokens * 4 * hidden;
        const float *w = of_client(weight, c, 2), *b = of_client(bias, c, 1);
        float* out = states.data_ptr<float>() + c * tokens * hidden;
        for (std::int64_t t = 0; t < order.steps(); ++t) {
          const std::int64_t at = order.begin(t), running = order.running(t);
          const std::int64_t before = t > 0 ? order.begin(t - 1) : 0;
          for (std::int64_t i = 0; i < running; ++i) {
            float* gates = parts.gates + (at + i) * 4 * hidden;
            std::memcpy(gates, b, sizeof(float) * static_cast<std::size_t>(4 * hidden));
            add_row(gates, input + order.rows[static_cast<std::size_t>(at + i)] * 4 * hidden, 4 * hidden);
          }
          if (t > 0) {
            const MatrixProduct from_state{
                .m = running, .n = 4 * hidden, .k = hidden, .transpose_b = true, .add = true};
            from_state({parts.h + before * hidden, hidden}, {w, hidden}, parts.gates + at * 4 * hidden, 4 * hidden);
          }
          for (std::int64_t i = 0; i < running; ++i) {
            float* h = parts.h + (at + i) * hidden;
            lstm_row(parts.gates + (at + i) * 4 * hidden, t > 0 ? parts.c + (before + i) * hidden : zeros.data(),
                     parts.c + (at + i) * hidden, h, hidden);
            std::memcpy(out + order.rows[static_cast<std::size_t>(at + i)] * hidden, h,
                        sizeof(float) * static_cast<std::size_t>(hidden));
            if (i < order.running(t + 1)) continue;
            float* last =
                ends.data_ptr<float>() + (c * sequences + order.sequences[static_cast<std::size_t>(i)]) * hidden;
            std::memcpy(last, h, sizeof(float) * static_cast<std::size_t>(hidden));
          }
        }
      }
    });
    context->save_for_backward({kept, weight, bias});
    context->saved_data["order"] = torch::IValue::make_capsule(holder);
    context->saved_data["tokens"] = tokens;
    return {states, ends};
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    // The gates become their gradients in place, because a graph is used once.
    const at::Tensor &kept = saved[0], &weight = saved[1], &bias = saved[2];
    const auto holder = c10::static_intrusive_pointer_cast<Holder>(context->saved_data["order"].toCapsule());
    const std::int64_t tokens = context->saved_data["tokens"].toInt();
    const std::int64_t clients = kept.size(0), hidden = kept.size(2) / 6;
    const at::NoGradGuard no_grad;
    const at::Tensor dstates = gradients[0].defined() ? gradients[0].contiguous() : at::Tensor();
    const at::Tensor dends = gradients[1].defined() ? gradients[1].contiguous() : at::Tensor();
    at::Tensor result = torch::zeros({clients, tokens, 4 * hidden}, kept.options());
    const std::vector<float> zeros(static_cast<std::size_t>(hidden), 0.0F);
    at::parallel_for(0, clients, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) {
        const Order& order = holder->orders[static_cast<std::size_t>(c)];
        const Parts parts(kept, c, order.tokens(), hidden);
        const float* w = of_client(weight, c, 2);
        const std::int64_t widest = order.running(0);
        std::vector<float> dh(static_cast<std::size_t>(widest * hidden), 0.0F), dc = dh;
        for (std::int64_t t = order.steps() - 1; t >= 0; --t) {
          const std::int64_t at = order.begin(t), running = order.running(t);
          const std::int64_t before = t > 0 ? order.begin(t - 1) : 0;
          for (std::int64_t i = 0; i < running; ++i) {
            float* mine = dh.data() + i * hidden;
            const std::int64_t row = order.rows[static_cast<std::size_t>(at + i)];
            if (dstates.defined()) add_row(mine, dstates.data_ptr<float>() + (c * tokens + row) * hidden, hidden);
            if (dends.defined() && i >= order.running(t + 1)) {
              const std::int64_t which = order.sequences[static_cast<std::size_t>(i)];
              add_row(mine, dends.data_ptr<float>() + (c * dends.size(1) + which) * hidden, hidden);
            }
            float* gates = parts.gates + (at + i) * 4 * hidden;
            lstm_gradient_row(gates, t > 0 ? parts.c + (before + i) * hidden : zeros.data(),
                              parts.c + (at + i) * hidden, mine, dc.data() + i * hidden, hidden);
            std::memcpy(result.data_ptr<float>() + (c * tokens + row) * 4 * hidden, gates,
                        sizeof(float) * static_cast<std::size_t>(4 * hidden));
          }
          const MatrixProduct to_state{.m = running, .n = hidden, .k = 4 * hidden};
          if (t > 0) to_state({parts.gates + at * 4 * hidden, 4 * hidden}, {w, hidden}, dh.data(), hidden);
        }
        if (weight.requires_grad()) add_weight_gradient(order, parts, hidden, weight.grad()[c].data_ptr<float>());
        if (!bias.requires_grad()) continue;
        float* db = bias.grad()[c].data_ptr<float>();
        for (std::int64_t i = 0; i < order.tokens(); ++i) add_row(db, parts.gates + i * 4 * hidden, 4 * hidden);
      }
    });
    return {result, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }

 private:
  // One client's part of the saved tensor.
  struct Parts {
    Parts(const at::Tensor& kept, std::int64_t client, std::int64_t tokens, std::int64_t hidden)
        : gates(kept.data_ptr<float>() + client * kept.stride(0)),
          c(gates + tokens * 4 * hidden),
          h(c + tokens * hidden) {}
    float *gates, *c, *h;
  };

  // dw [4h, h] += gates^T h, with h of the previous step
  static void add_weight_gradient(const Order& order, const Parts& parts, std::int64_t hidden, float* dw) {
    const std::int64_t first = order.running(0), count = order.tokens() - first;
    if (count == 0) return;
    std::vector<float> states(static_cast<std::size_t>(count * hidden));
    for (std::int64_t t = 1; t < order.steps(); ++t) {
      std::memcpy(states.data() + (order.begin(t) - first) * hidden, parts.h + order.begin(t - 1) * hidden,
                  sizeof(float) * static_cast<std::size_t>(order.running(t) * hidden));
    }
    const MatrixProduct all{.m = 4 * hidden, .n = hidden, .k = count, .transpose_a = true, .add = true};
    all({parts.gates + first * 4 * hidden, 4 * hidden}, {states.data(), hidden}, dw, hidden);
  }
};

}  // namespace

bool lstm_can(const Params& params, const LstmSteps& steps, const at::Tensor& projected) {
  const bool fits = MatrixProduct::possible() && is_float(projected) &&
                    params.trainable(steps.weight) == params.trainable(steps.bias);
  return backend_for(projected, {.cpu = fits}) == Backend::kCpu;
}

std::pair<at::Tensor, at::Tensor> lstm(const Params& params, const LstmSteps& steps, const at::Tensor& projected,
                                       const Packing& packing) {
  std::vector<Order> orders;
  for (const auto& lengths : packing.lengths()) orders.push_back(order_of(lengths, steps.backward));
  const auto results = LstmScan::apply(projected, params[steps.weight], params[steps.bias],
                                       c10::make_intrusive<Holder>(std::move(orders)), packing.sequences());
  return {results[0], results[1]};
}

}  // namespace chorus::inline ops
