#include "application/models/ops/attention.h"

#include "core/error.h"

namespace chorus {
namespace {

// [N, L, H] -> [N, heads, L, H / heads]
at::Tensor split_heads(const at::Tensor& x, std::int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, -1}).transpose(1, 2);
}

// Scores of one product, scaled, biased and masked; then weights.
at::Tensor weights_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& hidden, const AttentionSpec& spec) {
  at::Tensor scores = torch::matmul(q * spec.scale, k.transpose(-1, -2));
  if (spec.bias.defined()) scores = scores + spec.bias;
  if (hidden.defined()) scores = scores.masked_fill(hidden, kHiddenScore);
  return torch::softmax(scores, -1);
}

}  // namespace

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Packing& queries,
                     const Packing& keys, const AttentionSpec& spec, Dropout& dropout) {
  check(queries.total_sequences() == keys.total_sequences(), "queries and keys belong to the same sequences");
  const at::Tensor padded_q = split_heads(queries.unpack(q), spec.heads);
  const at::Tensor padded_k = split_heads(keys.unpack(k), spec.heads);
  const at::Tensor padded_v = split_heads(keys.unpack(v), spec.heads);

  at::Tensor hidden = keys.attendable().logical_not().view({keys.total_sequences(), 1, 1, keys.longest()});
  if (spec.causal) {
    const at::Tensor future =
        torch::ones({queries.longest(), keys.longest()}, at::TensorOptions(q.device()).dtype(at::kBool)).triu(1);
    hidden = hidden.logical_or(future);
  }
  at::Tensor weights = weights_of(padded_q, padded_k, hidden, spec);
  weights = dropout.weights(weights, spec.dropout, queries);
  const at::Tensor mixed = torch::matmul(weights, padded_v).transpose(1, 2);  // [N, Lq, heads, width]
  return queries.pack(mixed.reshape({mixed.size(0), mixed.size(1), -1}));
}

KeyValueCache KeyValueCache::of(const at::Tensor& k, const at::Tensor& v, const Packing& packing, std::int64_t heads) {
  check(packing.clients() == 1, "decoding works on one client at a time");
  const auto shape = [&](const at::Tensor& x) {
    return packing.unpack(x).view({packing.total_sequences(), packing.longest(), heads, -1});
  };
  return {shape(k), shape(v), packing.attendable()};
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
