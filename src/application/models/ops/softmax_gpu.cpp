#include "application/models/ops/softmax_gpu.h"

#include <limits>

#include "application/models/ops/gpu_arguments.h"
#include "application/models/ops/softmax_args.h"

namespace chorus::kernels {
extern const KernelSource softmax_gpu;
}  // namespace chorus::kernels

namespace chorus::inline ops {
namespace {

const KernelFamily kSoftmaxKernels{kernels::softmax_gpu, {element_option("ELEMENT")}};
const GpuKernel<SoftmaxArgs> kSoftmax{kSoftmaxKernels, "attention_softmax"};
const GpuKernel<SoftmaxGradientArgs> kSoftmaxGradient{kSoftmaxKernels, "attention_softmax_gradient"};

constexpr std::int64_t kMostKeys = 1024;  // 32 lanes of PER_LANE keys

SoftmaxShape softmax_shape(const at::Tensor& scores, const SoftmaxCall& call) {
  return {.client_of = call.client_of.data_ptr<std::int64_t>(),
          .sequence_of = call.sequence_of.data_ptr<std::int64_t>(),
          .queries_of = call.queries_of.data_ptr<std::int64_t>(),
          .keys_of = call.keys_of.data_ptr<std::int64_t>(),
          .heads = static_cast<u32>(scores.size(1)),
          .queries = static_cast<u32>(scores.size(2)),
          .width = static_cast<u32>(scores.size(3)),
          .rows = static_cast<u32>(scores.size(0) * scores.size(1) * scores.size(2)),
          .causal = call.causal ? 1U : 0U,
          .scale = static_cast<float>(call.scale)};
}

// A warp per row.
GpuGrid softmax_grid(const SoftmaxShape& shape) {
  return {.blocks = (static_cast<std::int64_t>(shape.rows) * 32 + kGpuThreads - 1) / kGpuThreads,
          .threads = kGpuThreads};
}

}  // namespace

bool softmax_gpu_fits(const at::Tensor& queries, std::int64_t longest_key) {
  return gpu_rows_fit(queries) && longest_key <= kMostKeys &&
         queries.numel() / queries.size(3) * longest_key < std::numeric_limits<std::int32_t>::max();
}

SoftmaxResult softmax_gpu(const at::Tensor& scores, const SoftmaxCall& call) {
  const at::Tensor from = scores.contiguous();
  SoftmaxResult result{torch::empty_like(from), {}};
  result.masked = call.site.threshold == 0 ? result.weights : torch::empty_like(from);
  const SoftmaxShape shape = softmax_shape(from, call);
  kSoftmax.launch(softmax_grid(shape),
                  {.scores = from.data_ptr(),
                   .weights = result.weights.data_ptr(),
                   .masked = result.masked.data_ptr(),
                   .shape = shape,
                   .mask = mask_args(call.site)},
                  {gpu_element(from.scalar_type())});
  return result;
}

at::Tensor softmax_gradient_gpu(const at::Tensor& gradient, const at::Tensor& weights, const SoftmaxCall& call) {
  const at::Tensor up = gradient.to(weights.scalar_type()).contiguous();
  at::Tensor result = torch::empty_like(weights);
  const SoftmaxShape shape = softmax_shape(weights, call);
  kSoftmaxGradient.launch(softmax_grid(shape),
                          {.dmasked = up.data_ptr(),
                           .weights = weights.data_ptr(),
                           .dscores = result.data_ptr(),
                           .shape = shape,
                           .mask = mask_args(call.site)},
                          {gpu_element(weights.scalar_type())});
  return result;
}

}  // namespace chorus::inline ops
