#include "application/optim/adamw.h"

#include <ATen/Parallel.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "application/optim/adamw_args.h"
#include "application/optim/flat_kernels.h"
#include "core/device/backend.h"
#include "core/device/gpu_kernel.h"
#include "core/device/torch_runtime.h"
#include "core/tensor/bfloat16.h"

namespace chorus::kernels {
extern const KernelSource adamw_gpu;
}  // namespace chorus::kernels

namespace chorus::inline optim {
namespace {

constexpr std::int64_t kGrain = 1 << 16;

const KernelFamily kAdamWKernels{kernels::adamw_gpu, {{"ELEMENT", {"float", "bf16"}}}};
const GpuKernel<AdamWArgs> kAdamW{kAdamWKernels, "adamw"};

// Whether four neighbouring elements can be loaded at once.
bool in_quads(const at::Tensor& rows) {
  if (!rows.defined()) return true;
  return reinterpret_cast<std::uintptr_t>(rows.data_ptr()) % (4 * rows.element_size()) == 0 && rows.stride(0) % 4 == 0;
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

bool AdamW::in_parts(const at::Tensor& values) const { return uses_gpu_kernels(values); }

bool AdamW::fused(const at::Tensor& values) const {
  return backend_for(values, {.cpu = true, .gpu = true}) != Backend::kReference;
}

void AdamW::update(const Rows& rows) {
  const Backend backend = backend_for(rows.values, {.cpu = true, .gpu = true});
  if (backend == Backend::kReference) complete();
  const std::int64_t count = rows.values.size(1);
  Step step{.first = first_.narrow(0, 0, rows.count).narrow(1, rows.first, count),
            .second = second_.narrow(0, 0, rows.count).narrow(1, rows.first, count),
            .known = std::max<std::int64_t>(known_ - rows.first, 0),
            .size = {},
            .root = {}};
  reached_ = std::max(reached_, rows.first + count);
  for (std::int64_t c = 0; c < rows.count; ++c) {
    const double number = steps(rows.count)[static_cast<std::size_t>(c)];
    step.size.push_back(rows.rates[static_cast<std::size_t>(c)] / (1 - std::pow(config_.beta1, number)));
    step.root.push_back(1 / std::sqrt(1 - std::pow(config_.beta2, number)));
  }
  switch (backend) {
    case Backend::kCpu:
      return update_cpu(rows, step);
    case Backend::kGpu:
      return update_gpu(rows, step);
    case Backend::kReference:
      return update_reference(rows, step);
  }
}

void AdamW::update_cpu(const Rows& rows, const Step& step) {
  const std::int64_t count = rows.values.size(1);
  const at::Tensor mask = decay_mask();
  for (std::int64_t c = 0; c < rows.count; ++c) {
    const auto k = static_cast<std::size_t>(c);
    const AdamWStep numbers{config_.beta1,
                            config_.beta2,
                            config_.epsilon,
                            step.size[k],
                            step.root[k],
                            rows.rates[k] * input().weight_decay,
                            rows.scale.defined() ? static_cast<double>(rows.scale.data_ptr<float>()[c]) : 1.0};
    const AdamWRow row{rows.values[c].data_ptr<float>(),    rows.before[c].data_ptr<float>(),
                       rows.gradients[c].data_ptr<float>(), step.first[c].data_ptr<float>(),
                       step.second[c].data_ptr<float>(),    mask.defined() ? mask.data_ptr<float>() : nullptr};
    auto* shadow = rows.shadow.defined() ? static_cast<std::byte*>(rows.shadow[c].data_ptr()) : nullptr;
    // The only step of an optimizer needs its moments as temporary values, which stay in the cache.
    const bool temporary = rows.once && step.known == 0;
    at::parallel_for(0, count, kGrain, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> scratch(temporary ? 2 * kGrain : 0);
      for (std::int64_t i = begin; i < end; i += kGrain) {
        const std::int64_t stop = std::min(end, i + kGrain), fresh = std::clamp(step.known, i, stop);
        if (temporary) {
          std::fill(scratch.begin(), scratch.end(), 0.0F);
          const AdamWRow part{row.values + i, row.before + i,          row.gradients + i,
                              scratch.data(), scratch.data() + kGrain, row.decay != nullptr ? row.decay + i : nullptr};
          adamw_step(part, 0, stop - i, numbers);
        } else {
          for (float* moments : {row.first, row.second}) std::fill(moments + fresh, moments + stop, 0.0F);
          adamw_step(row, i, stop, numbers);
        }
        if (shadow != nullptr) to_bfloat16({row.values + i, static_cast<std::size_t>(stop - i)}, shadow + 2 * i);
      }
    });
  }
}

void AdamW::update_gpu(const Rows& rows, const Step& step) {
  const std::int64_t count = rows.values.size(1);
  const auto even = [](auto& all) {
    return std::adjacent_find(all.begin(), all.end(), std::not_equal_to()) == all.end();
  };
  at::Tensor rates;
  if (!even(step.size) || !even(step.root)) {
    std::vector<float> numbers(step.size.begin(), step.size.end());
    numbers.insert(numbers.end(), step.root.begin(), step.root.end());
    for (const double rate : rows.rates) numbers.push_back(static_cast<float>(rate * input().weight_decay));
    rates = sent_to(rows.values.device(), torch::tensor(numbers));
  }
  const at::Tensor &values = rows.values, &before = rows.before, shadow = rows.last ? at::Tensor() : rows.shadow;
  const at::Tensor mask = decay_mask().defined() ? decay_mask().narrow(0, rows.first, count) : at::Tensor();
  const bool quads = (step.known % 4 == 0 || step.known >= count) && in_quads(values) && in_quads(before) &&
                     in_quads(shadow) && in_quads(rows.gradients) && in_quads(step.first);
  const auto floats = [](const at::Tensor& x) { return x.defined() ? x.data_ptr<float>() : nullptr; };
  kAdamW.launch({.blocks = std::min<std::int64_t>((count + 1023) / 1024, 16384), .threads = 256, .rows = rows.count},
                {.values = values.data_ptr<float>(),
                 .before = before.data_ptr<float>(),
                 .gradients = rows.gradients.data_ptr(),
                 .first = step.first.data_ptr<float>(),
                 .second = step.second.data_ptr<float>(),
                 .shadow = shadow.defined() ? static_cast<u16*>(shadow.data_ptr()) : nullptr,
                 .values_stride = values.stride(0),
                 .before_stride = before.stride(0),
                 .gradients_stride = rows.gradients.stride(0),
                 .moments_stride = step.first.stride(0),
                 .shadow_stride = shadow.defined() ? shadow.stride(0) : 0,
                 .decay_mask = floats(mask),
                 .scale = floats(rows.scale),
                 .rates = floats(rates),
                 .size = static_cast<float>(step.size[0]),
                 .root = static_cast<float>(step.root[0]),
                 .shrink = static_cast<float>(rows.rates[0] * input().weight_decay),
                 .beta1 = static_cast<float>(config_.beta1),
                 .gain1 = static_cast<float>(1 - config_.beta1),
                 .beta2 = static_cast<float>(config_.beta2),
                 .gain2 = static_cast<float>(1 - config_.beta2),
                 .epsilon = static_cast<float>(config_.epsilon),
                 .count = count,
                 .quads = quads ? count / 4 : 0,
                 .known = step.known,
                 .keep = rows.last || rows.once ? 0 : 1},
                {rows.gradients.scalar_type() == at::kFloat ? "float" : "bf16"});
}

void AdamW::update_reference(const Rows& rows, const Step& step) {
  std::vector<double> size = step.size;
  for (double& number : size) number = -number;
  at::Tensor first = step.first, second = step.second;
  first.mul_(config_.beta1).add_(rows.gradients, 1 - config_.beta1);
  second.mul_(config_.beta2).addcmul_(rows.gradients, rows.gradients, 1 - config_.beta2);
  decay_values(rows);
  const at::Tensor scale = second.sqrt().mul_(column(step.root)).add_(config_.epsilon);
  rows.values.add_(first.div(scale).mul_(column(size)));
}

namespace {

const Registration<Optimizers, AdamWConfig> kRegisteredAdamW{
    "adamw", "AdamW with decoupled weight decay (Loshchilov and Hutter 2019)",
    [](const AdamWConfig& config, const OptimizerInput& input) { return std::make_unique<AdamW>(config, input); }};

}  // namespace
}  // namespace chorus::inline optim
