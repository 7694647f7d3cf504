#include "application/models/ops/attention_gpu.h"

#include <torch/autograd.h>

#include <limits>

#include "application/models/ops/attending.h"
#include "application/models/ops/attention_args.h"
#include "application/models/ops/gpu_arguments.h"
#include "core/device/tf32.h"

namespace chorus::kernels {
extern const KernelSource attention_gpu;
extern const KernelSource attention_tf32_gpu;
}  // namespace chorus::kernels

namespace chorus::inline ops {
namespace {

const KernelOption kHeadWidth{"D", {"16", "32", "48", "64"}};
const KernelFamily kAttentionKernels{kernels::attention_gpu, {kHeadWidth}};
const GpuKernel<AttentionForwardArgs> kAttentionForward{kAttentionKernels, "attention_forward"};
const GpuKernel<AttentionForwardArgs> kAttentionForwardPlain{kAttentionKernels, "attention_forward_plain"};
const GpuKernel<AttentionGradientArgs> kAttentionGradient{kAttentionKernels, "attention_gradient"};
const KernelFamily kTf32Kernels{kernels::attention_tf32_gpu, {kHeadWidth}};
const GpuKernel<AttentionForwardArgs> kTf32Forward{kTf32Kernels, "attention_tf32_forward"};
const GpuKernel<AttentionGradientArgs> kTf32Gradient{kTf32Kernels, "attention_tf32_gradient"};

constexpr int kAttentionThreads = 128;

struct GpuAttentionCall {
  std::int64_t heads = 1, longest_query = 0;
  bool causal = false;
  double scale = 1;
  at::Tensor places;  // Packing::places
  Dropout::Site site = {};
  bool differentiable = at::GradMode::is_enabled();  // outside of autograd's functions

  // Saves everything but the places for the backward pass.
  void save(torch::autograd::AutogradContext& context) const {
    site.save(context);
    context.saved_data["heads"] = heads;
    context.saved_data["longest query"] = longest_query;
    context.saved_data["causal"] = causal;
    context.saved_data["scale"] = scale;
  }
  static GpuAttentionCall saved(torch::autograd::AutogradContext& context, const at::Tensor& places) {
    return {.heads = context.saved_data["heads"].toInt(),
            .longest_query = context.saved_data["longest query"].toInt(),
            .causal = context.saved_data["causal"].toBool(),
            .scale = context.saved_data["scale"].toDouble(),
            .places = places,
            .site = Dropout::Site::saved(context)};
  }
};

// Rows of one matrix: a contiguous tensor, or a column range of one.
bool rows_fit(const at::Tensor& x) {
  return x.stride(2) == 1 && x.stride(0) == x.size(1) * x.stride(1) && x.stride(1) % 8 == 0 &&
         reinterpret_cast<std::uintptr_t>(x.data_ptr()) % 16 == 0;
}
std::int64_t row_count(const at::Tensor& x) { return x.size(0) * x.size(1); }
at::Tensor as_rows(const at::Tensor& x) { return rows_fit(x) ? x : x.contiguous(); }

// Tokens that belong to no sequence are 0 in `out`.
struct Attended {
  at::Tensor out, logs;  // logs are undefined without a backward pass
};

AttentionShape attention_shape(const at::Tensor& q, const at::Tensor& k, const GpuAttentionCall& call) {
  return {.places = call.places.data_ptr<std::int64_t>(),
          .q_rows = row_count(q),
          .k_rows = row_count(k),
          .heads = static_cast<u32>(call.heads),
          .causal = call.causal ? 1U : 0U,
          .scale = static_cast<float>(call.scale)};
}

Attended attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const GpuAttentionCall& call) {
  Attended result{torch::empty({q.size(0), q.size(1), q.size(2)}, q.options()), {}};
  if (call.differentiable)
    result.logs = torch::empty({q.size(0) * q.size(1), call.heads}, q.options().dtype(at::kFloat));
  const auto& kernel = q.scalar_type() == at::kFloat ? kTf32Forward
                       : call.site.threshold > 0     ? kAttentionForward
                                                     : kAttentionForwardPlain;
  kernel.launch({.blocks = call.places.size(1) * call.heads,
                 .threads = kAttentionThreads,
                 .rows = (call.longest_query + kAttentionRows - 1) / kAttentionRows},
                {.q = q.data_ptr(),
                 .k = k.data_ptr(),
                 .v = v.data_ptr(),
                 .q_stride = q.stride(1),
                 .k_stride = k.stride(1),
                 .out = result.out.data_ptr(),
                 .logs = result.logs.defined() ? result.logs.data_ptr<float>() : nullptr,
                 .shape = attention_shape(q, k, call),
                 .mask = mask_args(call.site)},
                {q.size(2) / call.heads});
  return result;
}

// Writes the gradients of `in` into `to`.
void attend_gradient(const at::Tensor& gradient, const Attending& in, const Attended& forward, const Attending& to,
                     const GpuAttentionCall& call) {
  const at::Tensor dout = gradient.to(forward.out.scalar_type()).contiguous();
  const at::Tensor products = torch::empty_like(forward.logs);
  const at::Tensor sums = torch::empty(dout.sizes(), dout.options().dtype(at::kFloat));
  const auto& kernel = dout.scalar_type() == at::kFloat ? kTf32Gradient : kAttentionGradient;
  kernel.launch({.blocks = call.places.size(1) * call.heads, .threads = kAttentionThreads},
                {.q = in.q.data_ptr(),
                 .k = in.k.data_ptr(),
                 .v = in.v.data_ptr(),
                 .q_stride = in.q.stride(1),
                 .k_stride = in.k.stride(1),
                 .out = forward.out.data_ptr(),
                 .dout = dout.data_ptr(),
                 .logs = forward.logs.data_ptr<float>(),
                 .products = products.data_ptr<float>(),
                 .sums = sums.data_ptr<float>(),
                 .dq = to.q.data_ptr(),
                 .dk = to.k.data_ptr(),
                 .dv = to.v.data_ptr(),
                 .dq_stride = to.q.stride(1),
                 .dk_stride = to.k.stride(1),
                 .shape = attention_shape(in.q, in.k, call),
                 .mask = mask_args(call.site)},
                {in.q.size(2) / call.heads});
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
          .causal = spec.causal,
          .scale = spec.scale,
          .places = Packing::places(queries, keys),
          .site = site};
}

}  // namespace

bool attention_gpu_fits(const at::Tensor& q, std::int64_t width, const Packing& keys, const AttentionSpec& spec) {
  const bool type_fits = q.scalar_type() == at::kBFloat16 || (q.scalar_type() == at::kFloat && tf32_matmuls());
  return type_fits && width % 16 == 0 && width <= 64 && !spec.bias.defined() && !spec.prefix_keys.defined() &&
         !keys.visible().defined() && keys.longest() < (1 << 14) &&
         keys.total_sequences() * spec.heads < std::numeric_limits<std::int32_t>::max();
}

at::Tensor attention_gpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Packing& queries,
                         const Packing& keys, const AttentionSpec& spec, const Dropout::Site& site) {
  return GpuAttention::apply(q, k, v, call_of(queries, keys, spec, site));
}

at::Tensor self_attention_gpu(const at::Tensor& qkv, const Packing& packing, const AttentionSpec& spec,
                              const Dropout::Site& site) {
  return GpuSelfAttention::apply(qkv.contiguous(), call_of(packing, packing, spec, site));
}

}  // namespace chorus::inline ops
