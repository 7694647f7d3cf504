#include "application/models/ops/attention.h"

#include "application/models/ops/attention_cpu.h"
#include "application/models/ops/attention_gpu.h"
#include "application/models/ops/attention_reference.h"
#include "core/base/error.h"
#include "core/device/backend.h"

namespace chorus::inline ops {
namespace {

// For queries like q and heads of this width.
Backend attention_backend(const at::Tensor& q, std::int64_t width, const Packing& keys, const AttentionSpec& spec) {
  return backend_for(q, {.cpu = attention_cpu_fits(q, keys, spec), .gpu = attention_gpu_fits(q, width, keys, spec)});
}

}  // namespace

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Packing& queries,
                     const Packing& keys, const AttentionSpec& spec, Dropout& dropout) {
  check(queries.total_sequences() == keys.total_sequences(), "queries and keys belong to the same sequences");
  switch (attention_backend(q, q.size(2) / spec.heads, keys, spec)) {
    case Backend::kCpu:
      return attention_cpu(q, k, v, queries, keys, spec, dropout.site(spec.dropout, q.device()));
    case Backend::kGpu:
      return attention_gpu(q, k, v, queries, keys, spec, dropout.site(spec.dropout, q.device()));
    case Backend::kReference:
      break;
  }
  return attention_reference(q, k, v, queries, keys, spec, dropout);
}

at::Tensor self_attention(const at::Tensor& qkv, const Packing& packing, const AttentionSpec& spec, Dropout& dropout) {
  switch (attention_backend(qkv, qkv.size(2) / 3 / spec.heads, packing, spec)) {
    case Backend::kCpu:
      return self_attention_cpu(qkv, packing, spec, dropout.site(spec.dropout, qkv.device()));
    case Backend::kGpu:
      return self_attention_gpu(qkv, packing, spec, dropout.site(spec.dropout, qkv.device()));
    case Backend::kReference:
      break;
  }
  const std::vector<at::Tensor> parts = qkv.chunk(3, -1);
  return attention_reference(parts[0], parts[1], parts[2], packing, packing, spec, dropout);
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
  const std::int64_t length = spec.prefix_length(), width = like.size(-1) / spec.heads;
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
  const at::Tensor weights = attention_weights(query, cache.keys.transpose(1, 2), hidden, spec);
  return torch::matmul(weights, cache.values.transpose(1, 2)).view({1, sequences, -1});
}

}  // namespace chorus::inline ops
