#include "application/optim/adamw.h"

#include <ATen/Parallel.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "application/optim/flat_kernels.h"
#include "core/device/gpu_kernel.h"
#include "core/device/kernels.h"
#include "core/device/torch_runtime.h"
#include "core/tensor/bfloat16.h"

namespace chorus {
namespace {

constexpr std::int64_t kGrain = 1 << 16;

// flat_kernels.h for a GPU, all clients at once, four neighbours a thread, gradients of type G. numbers [3, A]: size,
// root and shrink of each, or null when all have the same. `half`: a bfloat16 copy of the values, or null. `quads`: how
// many groups of four lie at multiples of four. `known`, a multiple of four or beyond the end: numbers that have
// moments; those of the others are 0. `keep`: whether moments are written.
constexpr const char* kAdamWSource = R"(
__device__ inline float one(const float* g, long long i) { return g[i]; }
__device__ inline float one(const unsigned short* g, long long i) { return __uint_as_float((unsigned)g[i] << 16); }
__device__ inline float4 four(const float* g, long long i) { return ((const float4*)g)[i]; }
__device__ inline float4 four(const unsigned short* g, long long i) {
  const uint2 v = ((const uint2*)g)[i];
  return make_float4(__uint_as_float(v.x << 16), __uint_as_float(v.x & 0xffff0000u), __uint_as_float(v.y << 16),
                     __uint_as_float(v.y & 0xffff0000u));
}
__device__ inline float adamw_of(float before, float g, float& m, float& v, float decay, float size, float root,
                                 float beta1, float gain1, float beta2, float gain2, float epsilon) {
  m = beta1 * m + gain1 * g;
  v = beta2 * v + gain2 * g * g;
  return before - decay * before - size * m / (sqrtf(v) * root + epsilon);
}
__device__ inline unsigned pair(float low, float high) {
  unsigned both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
extern "C" __global__ void __launch_bounds__(256)
adamw(float* w, long long w_stride, const float* before, long long before_stride, const G* g, long long g_stride,
      float* m, float* v, long long stride, unsigned short* half, long long half_stride, const float* mask,
      const float* numbers, float size, float root, float shrink, const float* scale, long long count, long long quads,
      long long known, int keep, float beta1, float gain1, float beta2, float gain2, float epsilon) {
  const unsigned c = blockIdx.y, clients = gridDim.y;
  if (numbers != 0) {
    size = numbers[c];
    root = numbers[clients + c];
    shrink = numbers[2 * clients + c];
  }
  const float factor = scale == 0 ? 1.0f : scale[c];
  w += c * w_stride; before += c * before_stride; g += c * g_stride; m += c * stride; v += c * stride;
  if (half != 0) half += c * half_stride;
  const long long step = (long long)gridDim.x * blockDim.x, start = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  for (long long i = start; i < quads; i += step) {
    float4 a = ((const float4*)before)[i], d = four(g, i), p = make_float4(0, 0, 0, 0), q = p;
    if (4 * i < known) p = ((float4*)m)[i], q = ((float4*)v)[i];
    float4 k = make_float4(shrink, shrink, shrink, shrink);
    if (mask != 0) k = make_float4(shrink * mask[4 * i], shrink * mask[4 * i + 1], shrink * mask[4 * i + 2], shrink * mask[4 * i + 3]);
    a.x = adamw_of(a.x, d.x * factor, p.x, q.x, k.x, size, root, beta1, gain1, beta2, gain2, epsilon);
    a.y = adamw_of(a.y, d.y * factor, p.y, q.y, k.y, size, root, beta1, gain1, beta2, gain2, epsilon);
    a.z = adamw_of(a.z, d.z * factor, p.z, q.z, k.z, size, root, beta1, gain1, beta2, gain2, epsilon);
    a.w = adamw_of(a.w, d.w * factor, p.w, q.w, k.w, size, root, beta1, gain1, beta2, gain2, epsilon);
    ((float4*)w)[i] = a;
    if (keep) ((float4*)m)[i] = p, ((float4*)v)[i] = q;
    if (half != 0) ((uint2*)half)[i] = make_uint2(pair(a.x, a.y), pair(a.z, a.w));
  }
  for (long long i = 4 * quads + start; i < count; i += step) {
    const float decay = mask == 0 ? shrink : shrink * mask[i];
    if (i >= known) m[i] = v[i] = 0;
    w[i] = adamw_of(before[i], one(g, i) * factor, m[i], v[i], decay, size, root, beta1, gain1, beta2, gain2, epsilon);
    if (half != 0) half[i] = (unsigned short)pair(w[i], 0);
  }
}
)";

// Whether groups of four can be read at once.
bool in_quads(const at::Tensor& rows) {
  if (!rows.defined()) return true;
  return reinterpret_cast<std::uintptr_t>(rows.data_ptr()) % (4 * rows.element_size()) == 0 && rows.stride(0) % 4 == 0;
}

const GpuKernel& gpu_adamw(at::ScalarType gradients) {
  static const GpuKernel wide("adamw", std::string("typedef float G;\n") + kAdamWSource);
  static const GpuKernel half("adamw", std::string("typedef unsigned short G;\n") + kAdamWSource);
  return gradients == at::kFloat ? wide : half;
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
      first_(empty_buffer("first", input.layout->trainable_size())),
      second_(empty_buffer("second", input.layout->trainable_size())) {}

void AdamW::begin() { known_ = std::max(known_, reached_); }

void AdamW::complete() {
  begin();
  const std::int64_t rest = first_.size(1) - known_;
  for (const at::Tensor& moments : {first_, second_}) moments.narrow(1, known_, rest).zero_();
  known_ = reached_ = first_.size(1);
}

bool AdamW::in_parts(const at::Tensor& values) const { return GpuKernel::works_on(values); }

bool AdamW::fused(const at::Tensor& values) const {
  return fast_kernels() && (values.is_cpu() || GpuKernel::works_on(values));
}

void AdamW::update(const Rows& rows) {
  if (!fused(rows.values)) complete();
  const std::int64_t count = rows.values.size(1), known = std::max<std::int64_t>(known_ - rows.first, 0);
  reached_ = std::max(reached_, rows.first + count);
  const at::Tensor first = first_.narrow(0, 0, rows.count).narrow(1, rows.first, count);
  const at::Tensor second = second_.narrow(0, 0, rows.count).narrow(1, rows.first, count);
  std::vector<double> size, root;
  for (std::int64_t c = 0; c < rows.count; ++c) {
    const double step = steps(rows.count)[static_cast<std::size_t>(c)];
    size.push_back(rows.rates[static_cast<std::size_t>(c)] / (1 - std::pow(config_.beta1, step)));
    root.push_back(1 / std::sqrt(1 - std::pow(config_.beta2, step)));
  }
  if (fused(rows.values) && rows.values.is_cpu()) {
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
      auto* half = rows.half.defined() ? static_cast<std::byte*>(rows.half[c].data_ptr()) : nullptr;
      at::parallel_for(0, count, kGrain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; i += kGrain) {
          const std::int64_t stop = std::min(end, i + kGrain), fresh = std::clamp(known, i, stop);
          for (float* moments : {row.first, row.second}) std::fill(moments + fresh, moments + stop, 0.0F);
          adamw_step(row, i, stop, step);
          if (half != nullptr) to_bfloat16({row.values + i, static_cast<std::size_t>(stop - i)}, half + 2 * i);
        }
      });
    }
    return;
  }
  if (GpuKernel::works_on(rows.values)) {
    const auto even = [](auto& all) {
      return std::adjacent_find(all.begin(), all.end(), std::not_equal_to()) == all.end();
    };
    at::Tensor there;
    if (!even(size) || !even(root)) {
      std::vector<float> numbers(size.begin(), size.end());
      numbers.insert(numbers.end(), root.begin(), root.end());
      for (const double rate : rows.rates) numbers.push_back(static_cast<float>(rate * input().weight_decay));
      there = sent_to(rows.values.device(), torch::tensor(numbers));
    }
    const at::Tensor &values = rows.values, &before = rows.before, half = rows.last ? at::Tensor() : rows.half;
    const at::Tensor mask = decay_mask().defined() ? decay_mask().narrow(0, rows.first, count) : at::Tensor();
    const bool quads = (known % 4 == 0 || known >= count) && in_quads(values) && in_quads(before) && in_quads(half) &&
                       in_quads(rows.gradients) && in_quads(first);
    gpu_adamw(rows.gradients.scalar_type())
        .launch({std::min<std::int64_t>((count + 1023) / 1024, 16384), 256, rows.count}, values.data_ptr<float>(),
                values.stride(0), before.data_ptr<float>(), before.stride(0), rows.gradients.data_ptr(),
                rows.gradients.stride(0), first.data_ptr<float>(), second.data_ptr<float>(), first.stride(0),
                half.defined() ? half.data_ptr() : nullptr, half.defined() ? half.stride(0) : 0,
                mask.defined() ? mask.data_ptr<float>() : nullptr, there.defined() ? there.data_ptr<float>() : nullptr,
                static_cast<float>(size[0]), static_cast<float>(root[0]),
                static_cast<float>(rows.rates[0] * input().weight_decay),
                rows.scale.defined() ? rows.scale.data_ptr<float>() : nullptr, count,
                quads ? count / 4 : std::int64_t{0}, known, rows.last ? 0 : 1, static_cast<float>(config_.beta1),
                static_cast<float>(1 - config_.beta1), static_cast<float>(config_.beta2),
                static_cast<float>(1 - config_.beta2), static_cast<float>(config_.epsilon));
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
