#include "application/models/ops/norm_cpu.h"

#include <ATen/Parallel.h>

#include "application/models/ops/row_kernels.h"

namespace chorus::inline ops {
namespace {

// Rows per block. The gradients of weight and bias are summed per block, so that the sum does not depend on the number
// of threads.
constexpr std::int64_t kBlock = 64;

// A parameter [H] for all clients, or [C, H].
struct PerClient {
  explicit PerClient(const at::Tensor& tensor)
      : data(tensor.data_ptr<float>()), stride(tensor.dim() == 2 ? tensor.stride(0) : 0) {}
  const float* of(std::int64_t client) const { return data + client * stride; }
  const float* data;
  std::int64_t stride;
};

}  // namespace

NormCpu residual_norm_cpu(const NormInputCpu& input) {
  const at::Tensor part = input.f.contiguous(), rest = input.x.defined() ? input.x.contiguous() : at::Tensor();
  const float* others = rest.defined() ? rest.data_ptr<float>() : nullptr;
  const std::int64_t clients = part.size(0), rows = part.size(1), width = part.size(2);
  NormCpu result{torch::empty_like(part), torch::empty_like(part), torch::empty({clients * rows}, part.options())};
  const PerClient weights(input.weight), biases(input.bias);
  at::parallel_for(
      0, clients * rows, std::max<std::int64_t>(1, 16384 / width), [&](std::int64_t begin, std::int64_t end) {
        std::vector<float> scratch(static_cast<std::size_t>(width));
        for (std::int64_t r = begin; r < end; ++r) {
          const std::int64_t c = r / rows, at = r * width;
          const NormRow row{part.data_ptr<float>() + at,
                            others == nullptr ? nullptr : others + at,
                            weights.of(c),
                            biases.of(c),
                            result.normal.data_ptr<float>() + at,
                            result.y.data_ptr<float>() + at,
                            input.sum.defined() ? input.sum.data_ptr<float>() + at : nullptr};
          const MaskRow mask = input.site.hidden_row(static_cast<std::size_t>(c), r % rows, width);
          result.inverse.data_ptr<float>()[r] = residual_norm_row(row, mask, width, input.epsilon, scratch.data());
        }
      });
  return result;
}

NormGradientCpu residual_norm_gradient_cpu(const at::Tensor& gradient, const at::Tensor& sum_gradient,
                                           const NormCpu& forward, const at::Tensor& weight, const Dropout::Site& site,
                                           const at::Tensor& dweight, const at::Tensor& dbias) {
  const at::Tensor dy = gradient.contiguous();
  const at::Tensor dsum = sum_gradient.defined() ? sum_gradient.contiguous() : at::Tensor();
  const std::int64_t clients = dy.size(0), rows = dy.size(1), width = dy.size(2);
  const std::int64_t blocks = (rows + kBlock - 1) / kBlock;
  const at::Tensor dx = torch::empty_like(dy), df = site.keys.empty() ? dx : torch::empty_like(dy);
  const bool wanted = dweight.defined();
  const at::Tensor sums = wanted ? torch::zeros({2, clients, blocks, width}, dy.options()) : at::Tensor();
  const PerClient weights(weight);
  at::parallel_for(0, clients * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> scratch(static_cast<std::size_t>(width));
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t c = block / blocks, first = block % blocks * kBlock;
      float* weight_sum = wanted ? sums.data_ptr<float>() + block * width : nullptr;
      float* bias_sum = wanted ? weight_sum + clients * blocks * width : nullptr;
      for (std::int64_t r = first; r < std::min(first + kBlock, rows); ++r) {
        const std::int64_t at = (c * rows + r) * width;
        const NormGradRow row{dy.data_ptr<float>() + at,
                              dsum.defined() ? dsum.data_ptr<float>() + at : nullptr,
                              forward.normal.data_ptr<float>() + at,
                              weights.of(c),
                              forward.inverse.data_ptr<float>()[c * rows + r],
                              dx.data_ptr<float>() + at,
                              df.data_ptr<float>() + at,
                              weight_sum,
                              bias_sum};
        const MaskRow mask = site.hidden_row(static_cast<std::size_t>(c), r, width);
        residual_norm_gradient_row(row, mask, width, scratch.data());
      }
    }
  });
  if (wanted) {
    const float* of_block = sums.data_ptr<float>();
    for (const at::Tensor& total : {dweight, dbias}) {
      for (std::int64_t block = 0; block < clients * blocks; ++block, of_block += width) {
        add_row(total.data_ptr<float>() + block / blocks * total.stride(0), of_block, width);
      }
    }
  }
  return {df, dx};
}

}  // namespace chorus::inline ops
