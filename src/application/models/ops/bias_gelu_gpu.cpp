#include "application/models/ops/bias_gelu_gpu.h"

#include "application/models/ops/bias_gelu_args.h"
#include "application/models/ops/gpu_arguments.h"
#include "application/models/ops/sums_gpu.h"

namespace chorus::kernels {
extern const KernelSource bias_gelu_gpu;
}  // namespace chorus::kernels

namespace chorus::inline ops {
namespace {

const KernelFamily kBiasGeluKernels{kernels::bias_gelu_gpu, {element_option("ELEMENT"), {"BY_TANH", {"0", "1"}}}};
const GpuKernel<BiasArgs> kAddBias{kBiasGeluKernels, "add_bias"};
const GpuKernel<BiasArgs> kBiasGelu{kBiasGeluKernels, "bias_gelu"};
const GpuKernel<BiasGeluGradientArgs> kBiasGeluGradient{kBiasGeluKernels, "bias_gelu_gradient"};

constexpr std::int64_t kGradientRows = 16;  // per block

// Blocks that share a row; a thread takes four neighbouring elements.
std::int64_t chunks_of(const at::Tensor& x) { return (x.size(2) / 4 + kGpuThreads - 1) / kGpuThreads; }

void launch_rows(const GpuKernel<BiasArgs>& kernel, const at::Tensor& x, const at::Tensor& bias, const at::Tensor& y,
                 bool by_tanh) {
  constexpr std::int64_t kRows = 8;  // per block
  const AlignedRow biases(bias);
  const std::int64_t chunks = chunks_of(x);
  kernel.launch({.blocks = chunks * std::max<std::int64_t>(1, (x.size(1) + kRows - 1) / kRows),
                 .threads = kGpuThreads,
                 .rows = x.size(0)},
                {.x = x.data_ptr(),
                 .bias = biases.row(),
                 .y = y.data_ptr(),
                 .rows = static_cast<u32>(x.size(1)),
                 .width = static_cast<u32>(x.size(2)),
                 .chunks = static_cast<u32>(chunks)},
                {gpu_element(x.scalar_type()), by_tanh ? 1 : 0});
}

}  // namespace

bool bias_gpu_fits(const at::Tensor& x) { return gpu_rows_fit(x) && x.size(2) % 4 == 0; }

void add_bias_gpu(const at::Tensor& x, const at::Tensor& bias) { launch_rows(kAddBias, x, bias, x, false); }

void add_bias_then_gelu_gpu(const at::Tensor& x, const at::Tensor& bias, bool by_tanh) {
  launch_rows(kBiasGelu, x, bias, x, by_tanh);
}

at::Tensor bias_gelu_gpu(const at::Tensor& x, const at::Tensor& bias, bool by_tanh) {
  const at::Tensor from = x.contiguous();
  at::Tensor y = torch::empty_like(from);
  launch_rows(kBiasGelu, from, bias, y, by_tanh);
  return y;
}

at::Tensor bias_gelu_gradient_gpu(const at::Tensor& x, const at::Tensor& bias, const at::Tensor& dy, bool by_tanh,
                                  const at::Tensor& bias_gradient) {
  const at::Tensor from = x.contiguous(), up = dy.to(x.scalar_type()).contiguous();
  at::Tensor dx = torch::empty_like(from), sums;
  const AlignedRow biases(bias);
  const std::int64_t clients = x.size(0), chunks = chunks_of(x);
  const std::int64_t blocks = (x.size(1) + kGradientRows - 1) / kGradientRows;
  if (bias_gradient.defined()) sums = torch::empty({1, clients, blocks, x.size(2)}, bias_gradient.options());
  kBiasGeluGradient.launch({.blocks = chunks * blocks, .threads = kGpuThreads, .rows = clients},
                           {.x = from.data_ptr(),
                            .bias = biases.row(),
                            .dy = up.data_ptr(),
                            .dx = dx.data_ptr(),
                            .sums = sums.defined() ? sums.data_ptr<float>() : nullptr,
                            .rows = static_cast<u32>(x.size(1)),
                            .width = static_cast<u32>(x.size(2)),
                            .chunks = static_cast<u32>(chunks),
                            .block_rows = static_cast<u32>(kGradientRows)},
                           {gpu_element(from.scalar_type()), by_tanh ? 1 : 0});
  if (sums.defined()) fold_sums_gpu(sums, {bias_gradient});
  return dx;
}

}  // namespace chorus::inline ops
