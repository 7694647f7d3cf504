#include "application/models/ops/gpu_attention.h"

#include <fmt/format.h>
#include <torch/autograd.h>

#include <limits>
#include <map>
#include <mutex>

#include "application/models/ops/attending.h"
#include "application/models/ops/gpu_attention_source.h"
#include "application/models/ops/gpu_source.h"
#include "core/base/error.h"
#include "core/device/gpu_kernel.h"

namespace chorus {
namespace {

constexpr std::int64_t kRows = 64;  // ROWS

struct GpuAttentionCall {
  std::int64_t heads = 1, longest_query = 0, longest_key = 0;
  bool causal = false;
  double scale = 1;
  at::Tensor places;  // Packing::places
  Dropout::Site site = {};

  // From a forward pass to its backward pass, but for the places.
  void save(torch::autograd::AutogradContext& context) const {
    site.save(context);
    context.saved_data["heads"] = heads;
    context.saved_data["longest query"] = longest_query;
    context.saved_data["longest key"] = longest_key;
    context.saved_data["causal"] = causal;
    context.saved_data["scale"] = scale;
  }
  static GpuAttentionCall saved(torch::autograd::AutogradContext& context, const at::Tensor& places) {
    return {.heads = context.saved_data["heads"].toInt(),
            .longest_query = context.saved_data["longest query"].toInt(),
            .longest_key = context.saved_data["longest key"].toInt(),
            .causal = context.saved_data["causal"].toBool(),
            .scale = context.saved_data["scale"].toDouble(),
            .places = places,
            .site = Dropout::Site::saved(context)};
  }
};
constexpr int kWarps = 4;

struct Kernels {
  explicit Kernels(const std::string& source)
      : forward("attention_forward", source), gradient("attention_gradient", source) {}
  GpuKernel forward, gradient;
};

// Of heads so wide.
const Kernels& kernels_for(std::int64_t width) {
  static std::mutex mutex;
  static std::map<std::int64_t, Kernels> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(width);
  if (found != known.end()) return found->second;
  const std::string source = fmt::format("{}#define D {}\n{}", kGpuPrelude, width, kGpuAttentionSource);
  return known.try_emplace(width, source).first->second;
}

// What both kernels end with.
struct Rest {
  explicit Rest(const GpuAttentionCall& call)
      : places(call.places.data_ptr<std::int64_t>()),
        seeds(call.site.threshold == 0 ? nullptr : call.site.seeds.data_ptr<std::int64_t>()),
        heads(static_cast<unsigned>(call.heads)),
        causal(call.causal ? 1U : 0U),
        threshold(static_cast<unsigned>(call.site.threshold)),
        scale(static_cast<float>(call.scale)) {}
  const std::int64_t *places, *seeds;
  unsigned heads, causal, threshold;
  float scale;
};

// Rows of one matrix: a contiguous tensor, or the columns of one.
bool rows_fit(const at::Tensor& x) {
  return x.stride(2) == 1 && x.stride(0) == x.size(1) * x.stride(1) && x.stride(1) % 8 == 0 &&
         reinterpret_cast<std::uintptr_t>(x.data_ptr()) % 16 == 0;
}
std::int64_t row_count(const at::Tensor& x) { return x.size(0) * x.size(1); }
at::Tensor as_rows(const at::Tensor& x) { return rows_fit(x) ? x : x.contiguous(); }

// What belongs to no sequence is 0 in `out`.
struct Attended {
  at::Tensor out, logs;
};

Attended attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const GpuAttentionCall& call) {
  Attended result{torch::empty({q.size(0), q.size(1), q.size(2)}, q.options()),
                  torch::empty({q.size(0) * q.size(1), call.heads}, q.options().dtype(at::kFloat))};
  const Rest rest(call);
  const GpuKernel::Grid grid{call.places.size(1) * call.heads, 32 * kWarps, (call.longest_query + kRows - 1) / kRows};
  kernels_for(q.size(2) / call.heads)
      .forward.launch(grid, q.data_ptr(), q.stride(1), k.data_ptr(), v.data_ptr(), k.stride(1), result.out.data_ptr(),
                      result.logs.data_ptr<float>(), rest.places, row_count(q), row_count(k), rest.seeds,
                      call.site.call, rest.heads, rest.causal, rest.scale, rest.threshold, call.site.scale);
  return result;
}

// Writes the gradients of `in` into `to`.
void attend_gradient(const at::Tensor& gradient, const Attending& in, const Attended& forward, const Attending& to,
                     const GpuAttentionCall& call) {
  const at::Tensor dout = gradient.to(forward.out.scalar_type()).contiguous();
  const at::Tensor products = torch::empty_like(forward.logs);
  const at::Tensor sums = torch::empty(dout.sizes(), dout.options().dtype(at::kFloat));
  const Rest rest(call);
  kernels_for(in.q.size(2) / call.heads)
      .gradient.launch({call.places.size(1) * call.heads, 32 * kWarps}, in.q.data_ptr(), in.q.stride(1),
                       in.k.data_ptr(), in.v.data_ptr(), in.k.stride(1), forward.out.data_ptr(), dout.data_ptr(),
                       forward.logs.data_ptr<float>(), products.data_ptr<float>(), sums.data_ptr<float>(),
                       to.q.data_ptr(), to.q.stride(1), to.k.data_ptr(), to.v.data_ptr(), to.k.stride(1), rest.places,
                       row_count(in.q), row_count(in.k), rest.seeds, call.site.call, rest.heads, rest.causal,
                       rest.scale, rest.threshold, call.site.scale);
}

class GpuAttention : public torch::autograd::Function<GpuAttention> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& queries,
                            const at::Tensor& keys, const at::Tensor& values, const GpuAttentionCall& call) {
    const at::Tensor q = as_rows(queries);
    at::Tensor k = as_rows(keys), v = as_rows(values);
    if (k.stride(1) != v.stride(1)) k = k.contiguous(), v = v.contiguous();
    const Attended result = attend(q, k, v, call);
    context->save_for_backward({q, k, v, result.out, result.logs, call.places});
    call.save(*context);
    return result.out;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1];
    const at::Tensor dq = torch::empty({q.size(0), q.size(1), q.size(2)}, q.options());
    const at::Tensor dkv = torch::empty({2, k.size(0), k.size(1), k.size(2)}, k.options());
    const Attending to{dq, dkv[0], dkv[1]};
    attend_gradient(gradients[0], {q, k, saved[2]}, {saved[3], saved[4]}, to,
                    GpuAttentionCall::saved(*context, saved[5]));
    return {to.q, to.k, to.v, at::Tensor()};
  }
};

class GpuSelfAttention : public torch::autograd::Function<GpuSelfAttention> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& qkv,
                            const GpuAttentionCall& call) {
    const Attending in = Attending::parts(qkv);
    const Attended result = attend(in.q, in.k, in.v, call);
    context->save_for_backward({qkv, result.out, result.logs, call.places});
    call.save(*context);
    return result.out;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor dqkv = torch::empty_like(saved[0]);
    attend_gradient(gradients[0], Attending::parts(saved[0]), {saved[1], saved[2]}, Attending::parts(dqkv),
                    GpuAttentionCall::saved(*context, saved[3]));
    return {dqkv, at::Tensor()};
  }
};

GpuAttentionCall call_of(const Packing& queries, const Packing& keys, const AttentionSpec& spec,
                         const Dropout::Site& site) {
  return {.heads = spec.heads,
          .longest_query = queries.longest(),
          .longest_key = keys.longest(),
          .causal = spec.causal,
          .scale = spec.scale,
          .places = Packing::places(queries, keys),
          .site = site};
}

}  // namespace

bool gpu_attention_can(const at::Tensor& q, std::int64_t width, const Packing& keys, const AttentionSpec& spec) {
  return GpuKernel::works_on(q) && q.scalar_type() == at::kBFloat16 && width % 16 == 0 && width <= 64 &&
         !spec.bias.defined() && !spec.prefix_keys.defined() && !keys.visible().defined() &&
         keys.longest() < (1 << 14) && keys.total_sequences() * spec.heads < std::numeric_limits<std::int32_t>::max();
}

at::Tensor gpu_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Packing& queries,
                         const Packing& keys, const AttentionSpec& spec, const Dropout::Site& site) {
  return GpuAttention::apply(q, k, v, call_of(queries, keys, spec, site));
}

at::Tensor gpu_self_attention(const at::Tensor& qkv, const Packing& packing, const AttentionSpec& spec,
                              const Dropout::Site& site) {
  return GpuSelfAttention::apply(qkv.contiguous(), call_of(packing, packing, spec, site));
}

}  // namespace chorus
