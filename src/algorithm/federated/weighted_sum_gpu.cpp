#include "algorithm/federated/weighted_sum_gpu.h"

#include "algorithm/federated/weighted_sum_args.h"
#include "core/base/error.h"
#include "core/device/gpu_kernel.h"

namespace chorus::kernels {
extern const KernelSource weighted_sum_gpu;
}  // namespace chorus::kernels

namespace chorus::inline federated {
namespace {

const KernelFamily kSumKernels{kernels::weighted_sum_gpu};
const GpuKernel<WeightedSumArgs> kWeightedSum{kSumKernels, "weighted_sum"};

}  // namespace

void weighted_sum_gpu(const at::Tensor& out, std::span<const Term> terms, const at::Tensor& sum) {
  constexpr std::int64_t kThreads = 256, kOfThread = 8;
  WeightedSumArgs arguments{.out = out.data_ptr<float>(),
                            .terms = {},
                            .weights = {},
                            .sum = sum.defined() ? sum.data_ptr<float>() : nullptr,
                            .count = out.numel()};
  check(terms.size() <= std::size(arguments.terms), "too many terms for one launch");
  for (std::size_t k = 0; k < terms.size(); ++k) {
    arguments.terms[k] = terms[k].numbers;
    arguments.weights[k] = terms[k].weight;
  }
  kWeightedSum.launch(
      {.blocks = (out.numel() + kThreads * kOfThread - 1) / (kThreads * kOfThread), .threads = kThreads}, arguments);
}

}  // namespace chorus::inline federated
