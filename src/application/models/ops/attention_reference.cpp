#include "application/models/ops/attention_reference.h"

#include <torch/autograd.h>

#include "application/models/ops/lookup.h"
#include "application/models/ops/softmax_gpu.h"
#include "core/device/backend.h"

namespace chorus::inline ops {
namespace {

// [N, L, H] -> [N, heads, L, H / heads]
at::Tensor split_heads(const at::Tensor& x, std::int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, -1}).transpose(1, 2);
}

// The prefix has no position, hence no bias.
at::Tensor with_prefix_bias(const AttentionSpec& spec) {
  const std::int64_t length = spec.prefix_length();
  return length == 0 ? spec.bias : torch::constant_pad_nd(spec.bias, {length, 0});
}

// A prefix [p, H] or [C, p, H] as [N, p, H], one per sequence.
at::Tensor for_sequences(const at::Tensor& prefix, const Packing& packing) {
  if (prefix.dim() == 2) return prefix.unsqueeze(0).expand({packing.total_sequences(), -1, -1});
  return repeat_rows(prefix, packing.client_of());
}

// Which scores are hidden: [N, 1, 1 or Lq, prefix + Lk].
at::Tensor hidden_scores(const Packing& queries, const Packing& keys, const AttentionSpec& spec, at::Device device) {
  at::Tensor hidden = keys.attendable().logical_not().view({keys.total_sequences(), 1, 1, keys.longest()});
  if (spec.causal) {
    const at::Tensor future =
        torch::ones({queries.longest(), keys.longest()}, at::TensorOptions(device).dtype(at::kBool)).triu(1);
    hidden = hidden.logical_or(future);
  }
  const std::int64_t before = spec.prefix_length();
  return before > 0 ? torch::constant_pad_nd(hidden, {before, 0}, false) : hidden;
}

// Softmax and dropout on a GPU: one kernel forward, one backward.
class SoftmaxWeights : public torch::autograd::Function<SoftmaxWeights> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& scores,
                            const SoftmaxCall& call) {
    const SoftmaxResult result = softmax_gpu(scores, call);
    call.site.save(*context);
    context->save_for_backward({result.weights, call.client_of, call.sequence_of, call.queries_of, call.keys_of});
    context->saved_data["causal"] = call.causal;
    context->saved_data["scale"] = call.scale;
    return result.masked;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const SoftmaxCall call{saved[1],
                           saved[2],
                           saved[3],
                           saved[4],
                           context->saved_data["causal"].toBool(),
                           context->saved_data["scale"].toDouble(),
                           Dropout::Site::saved(*context)};
    return {softmax_gradient_gpu(gradients[0], saved[0], call), at::Tensor()};
  }
};

}  // namespace

at::Tensor attention_weights(const at::Tensor& q, const at::Tensor& k, const at::Tensor& hidden,
                             const AttentionSpec& spec) {
  at::Tensor scores = torch::matmul(q * spec.scale, k.transpose(-1, -2)).to(at::kFloat);
  if (spec.bias.defined()) scores = scores + with_prefix_bias(spec);
  if (hidden.defined()) scores = scores.masked_fill(hidden, kHiddenScore);
  return torch::softmax(scores, -1).to(q.scalar_type());
}

at::Tensor attention_reference(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Packing& queries,
                               const Packing& keys, const AttentionSpec& spec, Dropout& dropout) {
  const at::Tensor padded_q = split_heads(queries.unpack(q), spec.heads);
  at::Tensor plain_k = keys.unpack(k), plain_v = keys.unpack(v);
  const std::int64_t before = spec.prefix_length();
  if (before > 0) {
    plain_k = torch::cat({for_sequences(spec.prefix_keys, keys), plain_k}, 1);
    plain_v = torch::cat({for_sequences(spec.prefix_values, keys), plain_v}, 1);
  }
  const at::Tensor padded_k = split_heads(plain_k, spec.heads);
  const at::Tensor padded_v = split_heads(plain_v, spec.heads);
  at::Tensor weights;
  const bool plain = before == 0 && !spec.bias.defined() && !keys.visible().defined();
  if (backend_for(q, {.gpu = plain && softmax_gpu_fits(padded_q, keys.longest())}) == Backend::kGpu) {
    const SoftmaxCall call{queries.client_of(),
                           queries.sequence_of(),
                           queries.length_of(),
                           keys.length_of(),
                           spec.causal,
                           spec.scale,
                           dropout.site(spec.dropout, q.device())};
    weights = SoftmaxWeights::apply(torch::matmul(padded_q, padded_k.transpose(-1, -2)), call);
  } else {
    weights = attention_weights(padded_q, padded_k, hidden_scores(queries, keys, spec, q.device()), spec);
    weights = dropout.weights(weights, spec.dropout, queries);
  }
  const at::Tensor mixed = torch::matmul(weights, padded_v).transpose(1, 2);  // [N, Lq, heads, width]
  return queries.pack(mixed.reshape({mixed.size(0), mixed.size(1), -1}));
}

}  // namespace chorus::inline ops
