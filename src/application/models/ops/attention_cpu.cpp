#include "application/models/ops/attention_cpu.h"

#include <ATen/Parallel.h>
#include <torch/autograd.h>

#include "application/models/ops/attending.h"
#include "application/models/ops/matrix_product.h"
#include "application/models/ops/row_kernels.h"
#include "core/base/error.h"
#include "core/device/backend.h"

namespace chorus::inline ops {
namespace {

/// Where a sequence is among the packed query and key rows, and its weights in the flat buffer.
struct Place {
  std::int64_t client, sequence;
  std::int64_t query, queries;  // first row in C * Tq, and their number
  std::int64_t key, keys;
  std::int64_t weights;  // offset for head 0; head h is h * queries * keys elements further
};

struct Shape {
  std::vector<Place> places;
  std::int64_t heads, width, all;  // width of a head, of all heads
  std::int64_t weights = 0;        // total
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

// Calls work(place, head, scratch) for each sequence and head; `scratch` has 2 * queries * keys + 3 floats.
template <typename Work>
void for_each_head(const Shape& shape, const Work& work) {
  std::int64_t most = 0;
  for (const Place& place : shape.places) most = std::max(most, place.queries * place.keys);
  const auto count = static_cast<std::int64_t>(shape.places.size()) * shape.heads;
  at::parallel_for(0, count, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> scratch(static_cast<std::size_t>(2 * most + 3));
    for (std::int64_t i = begin; i < end; ++i) {
      work(shape.places[static_cast<std::size_t>(i / shape.heads)], i % shape.heads, scratch.data());
    }
  });
}

// The mask of a head's weights.
void fill_head(const Dropout::Site& site, const Place& place, const Shape& shape, std::int64_t head, float* mask) {
  const auto row = [&](std::int64_t query) {
    return site.row(static_cast<std::size_t>(place.client),
                    Dropout::Site::weights_start(place.sequence, shape.heads, head, query));
  };
  fill_masks(row(0), place.queries, row(1).start - row(0).start, place.keys, mask);
}

// Zeroes the rows that belong to no sequence.
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

// One head of a sequence in packed rows.
MatrixProduct::Rows head_of(const at::Tensor& x, std::int64_t row, std::int64_t head, const Shape& shape) {
  return {x.data_ptr<float>() + row * x.stride(1) + head * shape.width, x.stride(1)};
}
float* head_in(const at::Tensor& x, std::int64_t row, std::int64_t head, const Shape& shape) {
  return x.data_ptr<float>() + row * x.stride(1) + head * shape.width;
}

struct Weighted {
  at::Tensor out, weights;
};

Weighted weigh(const Attending& in, const Call& call) {
  const Shape shape = shape_of(call.queries, call.keys, call.spec, in.q.size(2));
  const Weighted result{torch::empty(in.q.sizes(), in.q.options()), torch::empty({shape.weights}, in.q.options())};
  for_each_head(shape, [&](const Place& place, std::int64_t head, float* scratch) {
    float* p = result.weights.data_ptr<float>() + place.weights + head * place.queries * place.keys;
    const MatrixProduct scores{.m = place.queries, .n = place.keys, .k = shape.width, .transpose_b = true};
    scores(head_of(in.q, place.query, head, shape), head_of(in.k, place.key, head, shape), p, place.keys);
    for (std::int64_t i = 0; i < place.queries; ++i) {
      const std::int64_t seen = shape.causal ? std::min(i + 1, place.keys) : place.keys;
      softmax_row(p + i * place.keys, seen, place.keys, shape.scale);
    }
    const float* used = p;
    if (!call.site.keys.empty()) {
      fill_head(call.site, place, shape, head, scratch);
      multiply_row(scratch, p, place.queries * place.keys);
      used = scratch;
    }
    const MatrixProduct mix{.m = place.queries, .n = shape.width, .k = place.keys};
    mix({used, place.keys}, head_of(in.v, place.key, head, shape), head_in(result.out, place.query, head, shape),
        shape.all);
  });
  clear_tails(result.out, call.queries);
  return result;
}

// Writes the gradients of `in` into `to`.
void weigh_gradient(const at::Tensor& gradient, const Attending& in, const at::Tensor& weights, const Attending& to,
                    const Call& call) {
  const Shape shape = shape_of(call.queries, call.keys, call.spec, in.q.size(2));
  const at::Tensor d = gradient.contiguous();
  const bool masked = !call.site.keys.empty();
  for_each_head(shape, [&](const Place& place, std::int64_t head, float* scratch) {
    const std::int64_t size = place.queries * place.keys;
    const float* p = weights.data_ptr<float>() + place.weights + head * size;
    float *d_weights = scratch, *mask = scratch + size;
    const MatrixProduct::Rows up = head_of(d, place.query, head, shape);
    const MatrixProduct over_keys{.m = place.queries, .n = place.keys, .k = shape.width, .transpose_b = true};
    const MatrixProduct to_queries{.m = place.queries, .n = shape.width, .k = place.keys, .scale = shape.scale};
    MatrixProduct to_keys{.m = place.keys, .n = shape.width, .k = place.queries, .transpose_a = true};
    if (masked) {
      fill_head(call.site, place, shape, head, mask);
      product_row(p, mask, d_weights, size);
    }
    to_keys({masked ? d_weights : p, place.keys}, up, head_in(to.v, place.key, head, shape), to.v.stride(1));
    over_keys(up, head_of(in.v, place.key, head, shape), d_weights, place.keys);
    if (masked) multiply_row(d_weights, mask, size);
    for (std::int64_t i = 0; i < place.queries; ++i) {
      softmax_gradient_row(p + i * place.keys, d_weights + i * place.keys, place.keys);
    }
    to_queries({d_weights, place.keys}, head_of(in.k, place.key, head, shape), head_in(to.q, place.query, head, shape),
               to.q.stride(1));
    to_keys.scale = shape.scale;
    to_keys({d_weights, place.keys}, head_of(in.q, place.query, head, shape), head_in(to.k, place.key, head, shape),
            to.k.stride(1));
  });
  clear_tails(to.q, call.queries);
  clear_tails(to.k, call.keys);
  clear_tails(to.v, call.keys);
}

struct HeldCall : torch::CustomClassHolder {
  explicit HeldCall(Call held) : call(std::move(held)) {}
  Call call;
};
using CallPtr = c10::intrusive_ptr<HeldCall>;
const Call& call_in(torch::autograd::AutogradContext& context) {
  return c10::static_intrusive_pointer_cast<HeldCall>(context.saved_data["call"].toCapsule())->call;
}

class PackedAttention : public torch::autograd::Function<PackedAttention> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const CallPtr& call) {
    const Weighted result = weigh({q, k, v}, call->call);
    context->save_for_backward({q, k, v, result.weights});
    context->saved_data["call"] = torch::IValue::make_capsule(call);
    return result.out;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const Attending to{torch::empty_like(saved[0]), torch::empty_like(saved[1]), torch::empty_like(saved[2])};
    weigh_gradient(gradients[0], {saved[0], saved[1], saved[2]}, saved[3], to, call_in(*context));
    return {to.q, to.k, to.v, at::Tensor()};
  }
};

class PackedSelfAttention : public torch::autograd::Function<PackedSelfAttention> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& qkv, const CallPtr& call) {
    const Weighted result = weigh(Attending::parts(qkv), call->call);
    context->save_for_backward({qkv, result.weights});
    context->saved_data["call"] = torch::IValue::make_capsule(call);
    return result.out;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor dqkv = torch::empty_like(saved[0]);
    weigh_gradient(gradients[0], Attending::parts(saved[0]), saved[1], Attending::parts(dqkv), call_in(*context));
    return {dqkv, at::Tensor()};
  }
};

}  // namespace

bool attention_cpu_fits(const at::Tensor& q, const Packing& keys, const AttentionSpec& spec) {
  return MatrixProduct::possible() && is_float(q) && !spec.bias.defined() && !spec.prefix_keys.defined() &&
         !keys.visible().defined();
}

at::Tensor attention_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Packing& queries,
                         const Packing& keys, const AttentionSpec& spec, const Dropout::Site& site) {
  const auto call = c10::make_intrusive<HeldCall>(Call{queries, keys, spec, site});
  return PackedAttention::apply(q.contiguous(), k.contiguous(), v.contiguous(), call);
}

at::Tensor self_attention_cpu(const at::Tensor& qkv, const Packing& packing, const AttentionSpec& spec,
                              const Dropout::Site& site) {
  return PackedSelfAttention::apply(qkv.contiguous(),
                                    c10::make_intrusive<HeldCall>(Call{packing, packing, spec, site}));
}

}  // namespace chorus::inline ops
