#include "application/models/ops/packed_attention.h"

#include <ATen/Parallel.h>
#include <torch/autograd.h>

#include "application/models/ops/matrix_product.h"
#include "application/models/ops/row_kernels.h"
#include "core/error.h"
#include "core/kernels.h"

namespace chorus {
namespace {

/// Where a sequence lies among the packed rows of queries and of keys, and its weights in the flat buffer.
struct Place {
  std::int64_t client, sequence;
  std::int64_t query, queries;  // first row in C * Tq, and how many
  std::int64_t key, keys;
  std::int64_t weights;  // of head 0; head h follows h * queries * keys later
};

struct Shape {
  std::vector<Place> places;
  std::int64_t heads, width, all;  // width of a head, of all heads
  std::int64_t weights = 0;        // in all
  bool causal;
  float scale;
};

Shape shape_of(const Packing& queries, const Packing& keys, const AttentionSpec& spec, std::int64_t all) {
  Shape shape{.places = {},
              .heads = spec.heads,
              .width = all / spec.heads,
              .all = all,
              .causal = spec.causal,
              .scale = static_cast<float>(spec.scale)};
  for (std::int64_t c = 0; c < queries.clients(); ++c) {
    const auto& mine = queries.lengths()[static_cast<std::size_t>(c)];
    const auto& theirs = keys.lengths()[static_cast<std::size_t>(c)];
    std::int64_t query = c * queries.tokens(), key = c * keys.tokens();
    for (std::size_t s = 0; s < mine.size(); ++s) {
      shape.places.push_back({c, static_cast<std::int64_t>(s), query, mine[s], key, theirs[s], shape.weights});
      query += mine[s];
      key += theirs[s];
      shape.weights += spec.heads * mine[s] * theirs[s];
    }
  }
  return shape;
}

// Calls work(place, head, scratch) for each sequence and head; `scratch` has twice as many floats as weights.
template <typename Work>
void for_each_head(const Shape& shape, const Work& work) {
  std::int64_t most = 0;
  for (const Place& place : shape.places) most = std::max(most, place.queries * place.keys);
  const auto count = static_cast<std::int64_t>(shape.places.size()) * shape.heads;
  at::parallel_for(0, count, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> scratch(static_cast<std::size_t>(2 * most));
    for (std::int64_t i = begin; i < end; ++i) {
      work(shape.places[static_cast<std::size_t>(i / shape.heads)], i % shape.heads, scratch.data());
    }
  });
}

MaskRow mask_of(const Dropout::Site& site, const Place& place, const Shape& shape, std::int64_t head,
                std::int64_t query) {
  return site.row(static_cast<std::size_t>(place.client),
                  Dropout::Site::weights_start(place.sequence, shape.heads, head, query));
}

// from * mask, row by row.
void mask_head(const Dropout::Site& site, const Place& place, const Shape& shape, std::int64_t head, const float* from,
               float* to) {
  for (std::int64_t i = 0; i < place.queries; ++i) {
    mask_row(mask_of(site, place, shape, head, i), place.keys, from + i * place.keys, to + i * place.keys);
  }
}

// Rows of no sequence become 0.
void clear_tails(const at::Tensor& packed, const Packing& packing) {
  for (std::int64_t c = 0; c < packing.clients(); ++c) {
    std::int64_t used = 0;
    for (const std::int64_t length : packing.lengths()[static_cast<std::size_t>(c)]) used += length;
    if (used < packing.tokens()) packed[c].narrow(0, used, packing.tokens() - used).zero_();
  }
}

struct Call {
  Packing queries, keys;
  AttentionSpec spec;
  Dropout::Site site;
};

class PackedAttention : public torch::autograd::Function<PackedAttention> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const std::shared_ptr<const Call>& call) {
    const Shape shape = shape_of(call->queries, call->keys, call->spec, q.size(2));
    at::Tensor out = torch::empty_like(q), weights = torch::empty({shape.weights}, q.options());
    const float *qs = q.data_ptr<float>(), *ks = k.data_ptr<float>(), *vs = v.data_ptr<float>();
    float *os = out.data_ptr<float>(), *ws = weights.data_ptr<float>();
    for_each_head(shape, [&](const Place& place, std::int64_t head, float* scratch) {
      const std::int64_t query = place.query * shape.all + head * shape.width;
      const std::int64_t key = place.key * shape.all + head * shape.width;
      float* p = ws + place.weights + head * place.queries * place.keys;
      const MatrixProduct scores{.m = place.queries, .n = place.keys, .k = shape.width, .turn_b = true};
      scores({qs + query, shape.all}, {ks + key, shape.all}, p, place.keys);
      for (std::int64_t i = 0; i < place.queries; ++i) {
        const std::int64_t seen = shape.causal ? std::min(i + 1, place.keys) : place.keys;
        softmax_row(p + i * place.keys, seen, place.keys, shape.scale);
      }
      const float* used = p;
      if (!call->site.keys.empty()) {
        mask_head(call->site, place, shape, head, p, scratch);
        used = scratch;
      }
      const MatrixProduct mix{.m = place.queries, .n = shape.width, .k = place.keys};
      mix({used, place.keys}, {vs + key, shape.all}, os + query, shape.all);
    });
    clear_tails(out, call->queries);
    context->save_for_backward({q, k, v, weights});
    context->saved_data["call"] = torch::IValue::make_capsule(c10::make_intrusive<Holder>(call));
    return out;
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &weights = saved[3];
    const auto call = c10::static_intrusive_pointer_cast<Holder>(context->saved_data["call"].toCapsule())->call;
    const Shape shape = shape_of(call->queries, call->keys, call->spec, q.size(2));
    const at::Tensor d = gradients[0].contiguous();
    at::Tensor dq = torch::empty_like(q), dk = torch::empty_like(k), dv = torch::empty_like(v);
    const float *qs = q.data_ptr<float>(), *ks = k.data_ptr<float>(), *vs = v.data_ptr<float>();
    const float *ds = d.data_ptr<float>(), *ws = weights.data_ptr<float>();
    float *dqs = dq.data_ptr<float>(), *dks = dk.data_ptr<float>(), *dvs = dv.data_ptr<float>();
    for_each_head(shape, [&](const Place& place, std::int64_t head, float* scratch) {
      const std::int64_t query = place.query * shape.all + head * shape.width;
      const std::int64_t key = place.key * shape.all + head * shape.width;
      const std::int64_t size = place.queries * place.keys;
      const float* p = ws + place.weights + head * size;
      float *first = scratch, *second = scratch + size;
      const bool masked = !call->site.keys.empty();
      const MatrixProduct::Rows up{ds + query, shape.all};
      const MatrixProduct over_keys{.m = place.queries, .n = place.keys, .k = shape.width, .turn_b = true};
      const MatrixProduct to_queries{.m = place.queries, .n = shape.width, .k = place.keys, .scale = shape.scale};
      MatrixProduct to_keys{.m = place.keys, .n = shape.width, .k = place.queries, .turn_a = true};
      if (masked) mask_head(call->site, place, shape, head, p, first);
      to_keys({masked ? first : p, place.keys}, up, dvs + key, shape.all);
      over_keys(up, {vs + key, shape.all}, first, place.keys);
      if (masked) mask_head(call->site, place, shape, head, first, second);
      float* dp = masked ? second : first;
      for (std::int64_t i = 0; i < place.queries; ++i) {
        softmax_gradient_row(p + i * place.keys, dp + i * place.keys, place.keys);
      }
      to_queries({dp, place.keys}, {ks + key, shape.all}, dqs + query, shape.all);
      to_keys.scale = shape.scale;
      to_keys({dp, place.keys}, {qs + query, shape.all}, dks + key, shape.all);
    });
    clear_tails(dq, call->queries);
    clear_tails(dk, call->keys);
    clear_tails(dv, call->keys);
    return {dq, dk, dv, at::Tensor()};
  }

 private:
  struct Holder : torch::CustomClassHolder {
    explicit Holder(std::shared_ptr<const Call> held) : call(std::move(held)) {}
    std::shared_ptr<const Call> call;
  };
};

}  // namespace

bool packed_attention_can(const at::Tensor& q, const Packing& keys, const AttentionSpec& spec) {
  return MatrixProduct::possible() && fast_kernels() && q.is_cpu() && q.scalar_type() == at::kFloat &&
         !spec.bias.defined() && !spec.prefix_keys.defined() && !keys.visible().defined();
}

at::Tensor packed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Packing& queries,
                            const Packing& keys, const AttentionSpec& spec, const Dropout::Site& site) {
  const auto call = std::make_shared<const Call>(Call{queries, keys, spec, site});
  return PackedAttention::apply(q.contiguous(), k.contiguous(), v.contiguous(), call);
}

}  // namespace chorus
