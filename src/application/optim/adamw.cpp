#include "application/optim/adamw.h"

#include <ATen/Parallel.h>
#include <torch/types.h>

#include <cmath>

#include "application/optim/flat_kernels.h"
#include "core/gpu_kernel.h"
#include "core/torch_runtime.h"

namespace chorus {
namespace {

constexpr std::int64_t kGrain = 1 << 16;

// flat_kernels.h for a GPU, all clients at once. numbers [3, A]: size, root and shrink of each.
constexpr const char* kAdamWSource = R"(
extern "C" __global__ void adamw(float* w, long long w_stride, const float* before, long long before_stride,
                                 const float* g, long long g_stride, float* m, float* v,
                                 long long stride, const float* mask, const float* numbers, const float* scale,
                                 long long count, float beta1, float gain1, float beta2, float gain2,
                                 float epsilon) {
  const unsigned c = blockIdx.y, clients = gridDim.y;
  const float size = numbers[c], root = numbers[clients + c], shrink = numbers[2 * clients + c];
  const float factor = scale == 0 ? 1.0f : scale[c];
  w += c * w_stride; before += c * before_stride; g += c * g_stride; m += c * stride; v += c * stride;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count; i += (long long)gridDim.x * blockDim.x) {
    const float d = g[i] * factor;
    const float a = beta1 * m[i] + gain1 * d, b = beta2 * v[i] + gain2 * d * d;
    m[i] = a;
    v[i] = b;
    const float decay = mask == 0 ? shrink : shrink * mask[i];
    w[i] = before[i] - decay * before[i] - size * a / (sqrtf(b) * root + epsilon);
  }
}
)";

const GpuKernel& gpu_adamw() {
  static const GpuKernel kernel("adamw", kAdamWSource);
  return kernel;
}

}  // namespace

void AdamWConfig::describe(ConfigVisitor& visitor) {
  visitor.field("beta1", beta1, "decay of the first moment").at_least(0).below(1);
  visitor.field("beta2", beta2, "decay of the second moment").at_least(0).below(1);
  visitor.field("epsilon", epsilon, "added to the root of the second moment").above(0);
}

AdamW::AdamW(const AdamWConfig& config, const OptimizerInput& input)
    : Optimizer(input),
      config_(config),
      first_(buffer("first", input.layout->trainable_size())),
      second_(buffer("second", input.layout->trainable_size())) {}

bool AdamW::fused(const at::Tensor& values) const { return values.is_cpu() || GpuKernel::works_on(values); }

void AdamW::update(const Rows& rows) {
  const at::Tensor first = first_.narrow(0, 0, rows.count);
  const at::Tensor second = second_.narrow(0, 0, rows.count);
  std::vector<double> size, root;
  for (std::int64_t c = 0; c < rows.count; ++c) {
    const double step = steps(rows.count)[static_cast<std::size_t>(c)];
    size.push_back(rows.rates[static_cast<std::size_t>(c)] / (1 - std::pow(config_.beta1, step)));
    root.push_back(1 / std::sqrt(1 - std::pow(config_.beta2, step)));
  }
  if (rows.values.device().is_cpu()) {
    const at::Tensor mask = decay_mask();
    for (std::int64_t c = 0; c < rows.count; ++c) {
      const auto k = static_cast<std::size_t>(c);
      const AdamWStep step{config_.beta1,
                           config_.beta2,
                           config_.epsilon,
                           size[k],
                           root[k],
                           rows.rates[k] * input().weight_decay,
                           rows.scale.defined() ? static_cast<double>(rows.scale.data_ptr<float>()[c]) : 1.0};
      const AdamWRow row{rows.values[c].data_ptr<float>(),    rows.before[c].data_ptr<float>(),
                         rows.gradients[c].data_ptr<float>(), first[c].data_ptr<float>(),
                         second[c].data_ptr<float>(),         mask.defined() ? mask.data_ptr<float>() : nullptr};
      at::parallel_for(0, rows.values.size(1), kGrain,
                       [&](std::int64_t begin, std::int64_t end) { adamw_step(row, begin, end, step); });
    }
    return;
  }
  if (GpuKernel::works_on(rows.values)) {
    std::vector<float> numbers(size.begin(), size.end());
    numbers.insert(numbers.end(), root.begin(), root.end());
    for (const double rate : rows.rates) numbers.push_back(static_cast<float>(rate * input().weight_decay));
    const at::Tensor there = sent_to(rows.values.device(), torch::tensor(numbers));
    const std::int64_t count = rows.values.size(1);
    gpu_adamw().launch(
        {std::min<std::int64_t>((count + 255) / 256, 4096), 256, rows.count}, rows.values.data_ptr<float>(),
        rows.values.stride(0), rows.before.data_ptr<float>(), rows.before.stride(0), rows.gradients.data_ptr<float>(),
        rows.gradients.stride(0), first.data_ptr<float>(), second.data_ptr<float>(), first.stride(0),
        decay_mask().defined() ? decay_mask().data_ptr<float>() : nullptr, there.data_ptr<float>(),
        rows.scale.defined() ? rows.scale.data_ptr<float>() : nullptr, count, static_cast<float>(config_.beta1),
        static_cast<float>(1 - config_.beta1), static_cast<float>(config_.beta2), static_cast<float>(1 - config_.beta2),
        static_cast<float>(config_.epsilon));
    return;
  }
  for (double& number : size) number = -number;
  first.mul_(config_.beta1).add_(rows.gradients, 1 - config_.beta1);
  second.mul_(config_.beta2).addcmul_(rows.gradients, rows.gradients, 1 - config_.beta2);
  decay_values(rows);
  const at::Tensor scale = second.sqrt().mul_(column(root)).add_(config_.epsilon);
  rows.values.add_(first.div(scale).mul_(column(size)));
}

namespace {

const Registration<Optimizers, AdamWConfig> kRegisteredAdamW{
    "adamw", "AdamW with decoupled weight decay (Loshchilov and Hutter 2019)",
    [](const AdamWConfig& config, const OptimizerInput& input) { return std::make_unique<AdamW>(config, input); }};

}  // namespace
}  // namespace chorus
