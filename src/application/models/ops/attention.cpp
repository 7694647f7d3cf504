#include "application/models/ops/attention.h"

#include <torch/autograd.h>

#include <limits>

#include "application/models/ops/gpu_attention.h"
#include "application/models/ops/gpu_rows.h"
#include "application/models/ops/packed_attention.h"
#include "core/base/error.h"

namespace chorus {
namespace {

// [N, L, H] -> [N, heads, L, H / heads]
at::Tensor split_heads(const at::Tensor& x, std::int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, -1}).transpose(1, 2);
}

std::int64_t prefix_length(const AttentionSpec& spec) {
  return spec.prefix_keys.defined() ? spec.prefix_keys.size(-2) : 0;
}

// The prefix has no place, hence no bias.
at::Tensor with_prefix_bias(const AttentionSpec& spec) {
  const std::int64_t length = prefix_length(spec);
  return length == 0 ? spec.bias : torch::constant_pad_nd(spec.bias, {length, 0});
}

// A prefix [p, H] or [C, p, H] as [N, p, H]: each sequence's.
at::Tensor for_sequences(const at::Tensor& prefix, const Packing& packing) {
  if (prefix.dim() == 2) return prefix.unsqueeze(0).expand({packing.total_sequences(), -1, -1});
  return prefix.index_select(0, packing.client_of());
}

// Scores of one product, scaled, biased and masked; then weights.
at::Tensor weights_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& hidden, const AttentionSpec& spec) {
  at::Tensor scores = torch::matmul(q * spec.scale, k.transpose(-1, -2)).to(at::kFloat);
  if (spec.bias.defined()) scores = scores + with_prefix_bias(spec);
  if (hidden.defined()) scores = scores.masked_fill(hidden, kHiddenScore);
  return torch::softmax(scores, -1).to(q.scalar_type());
}

// Which scores nobody may see: [N, 1, 1 or Lq, prefix + Lk].
at::Tensor hidden_scores(const Packing& queries, const Packing& keys, const AttentionSpec& spec, at::Device device) {
  at::Tensor hidden = keys.attendable().logical_not().view({keys.total_sequences(), 1, 1, keys.longest()});
  if (spec.causal) {
    const at::Tensor future =
        torch::ones({queries.longest(), keys.longest()}, at::TensorOptions(device).dtype(at::kBool)).triu(1);
    hidden = hidden.logical_or(future);
  }
  const std::int64_t before = prefix_length(spec);
  return before > 0 ? torch::constant_pad_nd(hidden, {before, 0}, false) : hidden;
}

bool gpu_softmax_can_be(const at::Tensor& padded_q, const Packing& keys) {
  return gpu_rows_can(padded_q) && keys.longest() <= 1024 &&
         padded_q.numel() / padded_q.size(3) * keys.longest() < std::numeric_limits<std::int32_t>::max();
}

// Softmax, masks and their gradients on a GPU, one kernel each way.
class GpuWeights : public torch::autograd::Function<GpuWeights> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& scores,
                            const GpuSoftmaxCall& call) {
    const GpuSoftmax result = gpu_attention_softmax(scores, call);
    call.site.save(*context);
    context->save_for_backward({result.weights, call.client_of, call.sequence_of, call.queries_of, call.keys_of});
    context->saved_data["causal"] = call.causal;
    context->saved_data["scale"] = call.scale;
    return result.masked;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const GpuSoftmaxCall call{saved[1],
                              saved[2],
                              saved[3],
                              saved[4],
                              context->saved_data["causal"].toBool(),
                              context->saved_data["scale"].toDouble(),
                              Dropout::Site::saved(*context)};
    return {gpu_attention_softmax_gradient(gradients[0], saved[0], call), at::Tensor()};
  }
};

}  // namespace

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Packing& queries,
                     const Packing& keys, const AttentionSpec& spec, Dropout& dropout) {
  check(queries.total_sequences() == keys.total_sequences(), "queries and keys belong to the same sequences");
  if (packed_attention_can(q, keys, spec)) {
    return packed_attention(q, k, v, queries, keys, spec, dropout.site(spec.dropout, q.device()));
  }
  if (gpu_attention_can(q, q.size(2) / spec.heads, keys, spec)) {
    return gpu_attention(q, k, v, queries, keys, spec, dropout.site(spec.dropout, q.device()));
  }
  return padded_attention(q, k, v, queries, keys, spec, dropout);
}

at::Tensor self_attention(const at::Tensor& qkv, const Packing& packing, const AttentionSpec& spec, Dropout& dropout) {
  if (packed_attention_can(qkv, packing, spec)) {
    return packed_self_attention(qkv, packing, spec, dropout.site(spec.dropout, qkv.device()));
  }
  if (gpu_attention_can(qkv, qkv.size(2) / 3 / spec.heads, packing, spec)) {
    return gpu_self_attention(qkv, packing, spec, dropout.site(spec.dropout, qkv.device()));
  }
  const std::vector<at::Tensor> parts = qkv.chunk(3, -1);
  return attention(parts[0], parts[1], parts[2], packing, packing, spec, dropout);
}

at::Tensor padded_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Packing& queries,
                            const Packing& keys, const AttentionSpec& spec, Dropout& dropout) {
  const at::Tensor padded_q = split_heads(queries.unpack(q), spec.heads);
  at::Tensor plain_k = keys.unpack(k), plain_v = keys.unpack(v);
  const std::int64_t before = prefix_length(spec);
  if (before > 0) {
    plain_k = torch::cat({for_sequences(spec.prefix_keys, keys), plain_k}, 1);
    plain_v = torch::cat({for_sequences(spec.prefix_values, keys), plain_v}, 1);
  }
  const at::Tensor padded_k = split_heads(plain_k, spec.heads);
  const at::Tensor padded_v = split_heads(plain_v, spec.heads);
  at::Tensor weights;
  if (before == 0 && !spec.bias.defined() && !keys.visible().defined() && gpu_softmax_can_be(padded_q, keys)) {
    const GpuSoftmaxCall call{queries.client_of(),
                              queries.sequence_of(),
                              queries.length_of(),
                              keys.length_of(),
                              spec.causal,
                              spec.scale,
                              dropout.site(spec.dropout, q.device())};
    weights = GpuWeights::apply(torch::matmul(padded_q, padded_k.transpose(-1, -2)), call);
  } else {
    weights = weights_of(padded_q, padded_k, hidden_scores(queries, keys, spec, q.device()), spec);
    weights = dropout.weights(weights, spec.dropout, queries);
  }
  const at::Tensor mixed = torch::matmul(weights, padded_v).transpose(1, 2);  // [N, Lq, heads, width]
  return queries.pack(mixed.reshape({mixed.size(0), mixed.size(1), -1}));
}

KeyValueCache KeyValueCache::of(const at::Tensor& k, const at::Tensor& v, const Packing& packing,
                                const AttentionSpec& spec) {
  check(packing.clients() == 1, "decoding works on one client at a time");
  KeyValueCache cache = empty(packing.total_sequences(), k, spec);
  const auto shape = [&](const at::Tensor& x) {
    return packing.unpack(x).view({packing.total_sequences(), packing.longest(), spec.heads, -1});
  };
  cache.keys = torch::cat({cache.keys, shape(k)}, 1);
  cache.values = torch::cat({cache.values, shape(v)}, 1);
  cache.attendable = torch::cat({cache.attendable, packing.attendable()}, 1);
  return cache;
}

KeyValueCache KeyValueCache::empty(std::int64_t sequences, const at::Tensor& like, const AttentionSpec& spec) {
  const std::int64_t length = prefix_length(spec), width = like.size(-1) / spec.heads;
  const auto shape = [&](const at::Tensor& prefix) {
    if (!prefix.defined()) return torch::empty({sequences, 0, spec.heads, width}, like.options());
    return prefix.reshape({1, length, spec.heads, width}).expand({sequences, -1, -1, -1});
  };
  return {shape(spec.prefix_keys), shape(spec.prefix_values),
          torch::ones({sequences, length}, like.options().dtype(at::kBool))};
}

void KeyValueCache::append(const at::Tensor& k, const at::Tensor& v) {
  const std::int64_t heads = keys.size(2);
  const auto shape = [&](const at::Tensor& x) { return x.view({x.size(1), 1, heads, -1}); };
  keys = torch::cat({keys, shape(k)}, 1);
  values = torch::cat({values, shape(v)}, 1);
  attendable = torch::cat({attendable, torch::ones({attendable.size(0), 1}, attendable.options())}, 1);
}

void KeyValueCache::reorder(const at::Tensor& rows) {
  keys = keys.index_select(0, rows);
  values = values.index_select(0, rows);
  attendable = attendable.index_select(0, rows);
}

at::Tensor attend_to_cache(const at::Tensor& q, const KeyValueCache& cache, const AttentionSpec& spec) {
  const std::int64_t sequences = q.size(1);
  const at::Tensor query = q.view({sequences, spec.heads, 1, -1});
  const at::Tensor hidden = cache.attendable.logical_not().view({sequences, 1, 1, -1});
  const at::Tensor weights = weights_of(query, cache.keys.transpose(1, 2), hidden, spec);
  return torch::matmul(weights, cache.values.transpose(1, 2)).view({1, sequences, -1});
}

}  // namespace chorus
