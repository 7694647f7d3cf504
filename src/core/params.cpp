#include "core/params.h"

#include "core/error.h"
#include "core/rng.h"
#include "core/torch_runtime.h"

namespace chorus {
namespace {

// Rows start at multiples of 64 bytes, whatever P is.
at::Tensor empty_rows(std::int64_t clients, std::int64_t size, at::Device device) {
  const std::int64_t stride = (size + 15) / 16 * 16;
  return torch::empty({clients, stride}, at::TensorOptions(device).dtype(at::kFloat)).narrow(1, 0, size);
}

at::Tensor zero_rows(std::int64_t clients, std::int64_t size, at::Device device) {
  return empty_rows(clients, size, device).zero_();
}

// A view [C, shape...] into a buffer [C, P].
at::Tensor slice(const at::Tensor& rows, const ParamSpec& spec) {
  return rows.narrow(1, spec.offset, spec.count).unflatten(1, spec.shape.empty() ? at::IntArrayRef{1} : spec.shape);
}

}  // namespace

Params::Params(const Layout& layout, const Options& options)
    : Params(std::make_shared<Layout>(layout), zero_rows(options.clients, layout.trainable_size(), options.device),
             options.gradients ? zero_rows(options.clients, layout.trainable_size(), options.device) : at::Tensor(),
             torch::zeros({layout.frozen_size()}, at::TensorOptions(options.device).dtype(at::kFloat))) {}

Params::Params(std::shared_ptr<const Layout> layout, at::Tensor values, at::Tensor grads, at::Tensor frozen)
    : layout_(std::move(layout)), values_(std::move(values)), grads_(std::move(grads)), frozen_(std::move(frozen)) {
  prepare_torch();
  make_leaves();
}

Params Params::cohort_of(const Params& base, std::int64_t clients, bool gradients) {
  Params cohort = cohort_from(base, clients, gradients, base.values_[0]);
  if (gradients) cohort.zero_grads();
  return cohort;
}

Params Params::cohort_from(const Params& base, std::int64_t clients, bool gradients, const at::Tensor& start) {
  const std::int64_t size = base.layout().trainable_size();
  check(start.size(-1) == size, "the start is of another model");
  const at::Tensor values = empty_rows(clients, size, base.device());
  values.copy_((start.dim() == 1 ? start.unsqueeze(0) : start).expand({clients, size}));
  return Params(base.layout_, values, gradients ? empty_rows(clients, size, base.device()) : at::Tensor(),
                base.frozen_);
}

Params Params::cohort_at(const Params& base, std::int64_t clients, const at::Tensor& start) {
  const std::int64_t size = base.layout().trainable_size();
  check(start.size(-1) == size, "the start is of another model");
  return Params(base.layout_, (start.dim() == 1 ? start.unsqueeze(0) : start).expand({clients, size}),
                empty_rows(clients, size, base.device()), base.frozen_);
}

Params Params::with_own_values() const {
  return Params(layout_, empty_rows(clients(), values_.size(1), device()), grads_, frozen_);
}

Params Params::on(std::shared_ptr<const Layout> layout, std::int64_t clients, const at::Tensor& frozen) {
  check(frozen.size(0) == layout->frozen_size(), "the frozen vector is of another model");
  const at::Tensor values = empty_rows(clients, layout->trainable_size(), frozen.device());
  const at::Tensor gradients = empty_rows(clients, layout->trainable_size(), frozen.device());
  return Params(std::move(layout), values, gradients, frozen);
}

Params Params::over(const Layout& layout, const at::Tensor& frozen) {
  check(frozen.size(0) == layout.frozen_size(), "the frozen vector is of another model");
  return Params(std::make_shared<Layout>(layout), zero_rows(1, layout.trainable_size(), frozen.device()), at::Tensor(),
                frozen);
}

void Params::make_leaves() {
  leaves_.clear();
  leaves_.reserve(layout_->specs().size());
  for (const ParamSpec& spec : layout_->specs()) {
    if (!spec.trainable) {
      leaves_.push_back(frozen_.narrow(0, spec.offset, spec.count).view(spec.shape));
      continue;
    }
    at::Tensor leaf = slice(values_, spec).detach();
    if (grads_.defined()) {
      leaf.set_requires_grad(true);
      leaf.mutable_grad() = slice(grads_, spec);
    }
    leaves_.push_back(std::move(leaf));
  }
}

Params Params::client(std::int64_t index) const {
  check(index >= 0 && index < clients(), "no such client in the cohort");
  return Params(layout_, values_.narrow(0, index, 1), grads_.defined() ? grads_.narrow(0, index, 1) : at::Tensor(),
                frozen_);
}

Params Params::first(std::int64_t count) const {
  check(count >= 1 && count <= clients(), "no such clients in the cohort");
  return Params(layout_, values_.narrow(0, 0, count), grads_.defined() ? grads_.narrow(0, 0, count) : at::Tensor(),
                frozen_);
}

at::Tensor Params::tensor(ParamId id, std::int64_t client) const {
  const ParamSpec& spec = (*layout_)[id];
  if (!spec.trainable) return frozen_.narrow(0, spec.offset, spec.count).view(spec.shape);
  return values_[client].narrow(0, spec.offset, spec.count).view(spec.shape);
}

at::Tensor Params::gradient(ParamId id, std::int64_t client) const {
  const ParamSpec& spec = (*layout_)[id];
  check(spec.trainable && grads_.defined(), "a frozen parameter has no gradient");
  return grads_[client].narrow(0, spec.offset, spec.count).view(spec.shape);
}

void Params::initialise(std::uint64_t seed) {
  for (std::size_t i = 0; i < layout_->specs().size(); ++i) initialise(ParamId{static_cast<int>(i)}, seed);
}

void Params::initialise(ParamId id, std::uint64_t seed) {
  const ParamSpec& spec = (*layout_)[id];
  at::Tensor fresh = torch::empty(spec.shape, at::kFloat);
  float* data = fresh.data_ptr<float>();
  RandomStream stream({.seed = seed, .purpose = "init", .client = hash_name(spec.name)});
  for (std::int64_t i = 0; i < spec.count; ++i) {
    switch (spec.init.kind) {
      case Init::Kind::kZeros:
        data[i] = 0;
        break;
      case Init::Kind::kOnes:
        data[i] = 1;
        break;
      case Init::Kind::kNormal:
        data[i] = static_cast<float>(spec.init.scale * stream.normal());
        break;
      case Init::Kind::kUniform:
        data[i] = static_cast<float>(spec.init.scale * (2 * stream.uniform() - 1));
        break;
    }
  }
  for (std::int64_t c = 0; c < (spec.trainable ? clients() : 1); ++c) tensor(id, c).copy_(fresh);
}

}  // namespace chorus
