#include "core/tensor/params.h"

#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/device/torch_runtime.h"
#include "core/tensor/bfloat16.h"
#include "core/tensor/flat_views.h"

namespace chorus::inline tensor {
namespace {

at::Tensor zero_rows(std::int64_t clients, std::int64_t size, at::Device device) {
  return aligned_rows(clients, size, device).zero_();
}

// A start [P] or [C, P] as rows [C, P], without a copy.
at::Tensor start_rows(const Params& base, std::int64_t clients, const at::Tensor& start) {
  const std::int64_t size = base.layout().trainable_size();
  check(start.size(-1) == size, "the start is of another model");
  return (start.dim() == 1 ? start.unsqueeze(0) : start).expand({clients, size});
}

}  // namespace

Params::Params(const Layout& layout, const Options& options)
    : Params(std::make_shared<Layout>(layout), zero_rows(options.clients, layout.trainable_size(), options.device),
             options.gradients ? zero_rows(options.clients, layout.trainable_size(), options.device) : at::Tensor(),
             torch::zeros({layout.frozen_size()}, at::TensorOptions(options.device).dtype(at::kFloat)),
             std::make_shared<FrozenShadow>(), nullptr) {}

Params::Params(std::shared_ptr<const Layout> layout, at::Tensor values, at::Tensor grads, at::Tensor frozen,
               std::shared_ptr<FrozenShadow> frozen_shadow, std::shared_ptr<const FrozenViews> frozen_views)
    : layout_(std::move(layout)),
      values_(std::move(values)),
      grads_(std::move(grads)),
      frozen_(std::move(frozen)),
      frozen_shadow_(std::move(frozen_shadow)),
      frozen_views_(frozen_views ? std::move(frozen_views) : Params::frozen_views(*layout_, frozen_)) {
  prepare_torch();
  if (grads_.defined()) writes_ = c10::make_intrusive<GradientWrites>(layout_, grads_);
  make_leaves();
}

Params Params::copies_of(const Params& base, std::int64_t clients, bool gradients) {
  Params cohort = copies_of_start(base, clients, gradients, base.values_[0]);
  if (gradients) cohort.grads_.zero_();
  return cohort;
}

Params Params::copies_of_start(const Params& base, std::int64_t clients, bool gradients, const at::Tensor& start) {
  const at::Tensor from = start_rows(base, clients, start);
  const at::Tensor values = aligned_rows(clients, from.size(1), base.device());
  values.copy_(from);
  return Params(base.layout_, values, gradients ? aligned_rows(clients, from.size(1), base.device()) : at::Tensor(),
                base.frozen_, base.frozen_shadow_, base.frozen_views_);
}

Params Params::views_of_start(const Params& base, std::int64_t clients, const at::Tensor& start, bool gradients) {
  const at::Tensor values = start_rows(base, clients, start);
  return Params(base.layout_, values, gradients ? aligned_rows(clients, values.size(1), base.device()) : at::Tensor(),
                base.frozen_, base.frozen_shadow_, base.frozen_views_);
}

Params Params::unset_cohort(std::shared_ptr<const Layout> layout, std::int64_t clients, const Params& base) {
  check(base.frozen_.size(0) == layout->frozen_size(), "the frozen vector is of another model");
  const at::Tensor values = aligned_rows(clients, layout->trainable_size(), base.device());
  const at::Tensor gradients = aligned_rows(clients, layout->trainable_size(), base.device());
  return Params(std::move(layout), values, gradients, base.frozen_, base.frozen_shadow_, nullptr);
}

Params Params::zeros_over_frozen(const Layout& layout, const at::Tensor& frozen) {
  check(frozen.size(0) == layout.frozen_size(), "the frozen vector is of another model");
  return Params(std::make_shared<Layout>(layout), zero_rows(1, layout.trainable_size(), frozen.device()), at::Tensor(),
                frozen, std::make_shared<FrozenShadow>(), nullptr);
}

Params Params::with_own_values() const {
  Params result(layout_, aligned_rows(clients(), values_.size(1), device()), grads_, frozen_, frozen_shadow_,
                frozen_views_);
  result.shadow_ = shadow_;
  return result;
}

Params Params::with_shadow() const {
  Params result = with_unset_shadow();
  put_as_bfloat16(result.shadow_.values(), values_);
  return result;
}

Params Params::with_unset_shadow() const {
  Params result = *this;
  result.shadow_ = Bfloat16Shadow(*layout_, aligned_rows(clients(), values_.size(1), device(), at::kBFloat16),
                                  frozen_shadow_->views(layout_, frozen_));
  return result;
}

std::shared_ptr<const Params::FrozenViews> Params::frozen_views(const Layout& layout, const at::Tensor& frozen) {
  auto result = std::make_shared<FrozenViews>();
  const auto view = [&](const ParamSpec& spec) { return view_of(frozen, spec); };
  for (const ParamSpec& spec : layout.specs()) result->single.push_back(spec.trainable ? at::Tensor() : view(spec));
  result->joined.add(layout, false, view);
  return result;
}

void Params::make_leaves() {
  leaves_ = frozen_views_->single;
  joined_ = frozen_views_->joined;
  const auto view = [&](const ParamSpec& spec) {
    at::Tensor leaf = view_of(values_, spec).detach();
    if (grads_.defined()) {
      leaf.set_requires_grad(true);
      leaf.mutable_grad() = view_of(grads_, spec);
    }
    return leaf;
  };
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    if (layout_->specs()[i].trainable) leaves_[i] = view(layout_->specs()[i]);
  }
  joined_.add(*layout_, true, view);
}

Params Params::client(std::int64_t index) const { return rows(index, 1); }

Params Params::first(std::int64_t count) const { return rows(0, count); }

Params Params::rows(std::int64_t begin, std::int64_t count) const {
  check(begin >= 0 && count >= 1 && begin + count <= clients(), "no such clients in the cohort");
  Params result(layout_, values_.narrow(0, begin, count),
                grads_.defined() ? grads_.narrow(0, begin, count) : at::Tensor(), frozen_, frozen_shadow_,
                frozen_views_);
  result.shadow_ = shadow_.rows(*layout_, begin, count);
  return result;
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

}  // namespace chorus::inline tensor
