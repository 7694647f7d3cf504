#include "core/tensor/params.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/device/torch_runtime.h"
#include "core/tensor/bfloat16.h"

namespace chorus {
namespace {

// Rows start at multiples of 64 bytes, whatever P is.
at::Tensor empty_rows(std::int64_t clients, std::int64_t size, at::Device device, at::ScalarType type = at::kFloat) {
  const std::int64_t stride = (size + 15) / 16 * 16;
  return torch::empty({clients, stride}, at::TensorOptions(device).dtype(type)).narrow(1, 0, size);
}

at::Tensor zero_rows(std::int64_t clients, std::int64_t size, at::Device device) {
  return empty_rows(clients, size, device).zero_();
}

// A view [C, shape...] into a buffer [C, P].
at::Tensor slice(const at::Tensor& rows, const ParamSpec& spec) {
  return rows.narrow(1, spec.offset, spec.count).unflatten(1, spec.shape.empty() ? at::IntArrayRef{1} : spec.shape);
}

// The parameters of a joint as one, if they are that.
std::optional<ParamSpec> joined_spec(const Layout& layout, int first, int count) {
  ParamSpec all = layout[ParamId{first}];
  for (int i = 1; i < count; ++i) {
    const ParamSpec& next = layout[ParamId{first + i}];
    if (next.trainable != all.trainable || next.offset != all.offset + all.count) return std::nullopt;
    all.count += next.count;
    all.shape[0] += next.shape[0];
  }
  return all;
}

// On a GPU long rows that lie apart are filled faster one by one.
void clear(const at::Tensor& rows) {
  constexpr std::int64_t kLong = 1 << 18;
  if (rows.is_cpu() || rows.size(1) < kLong) {
    rows.zero_();
  } else {
    for (std::int64_t c = 0; c < rows.size(0); ++c) rows[c].zero_();
  }
}

const at::Tensor kNone;

const at::Tensor& found(const std::unordered_map<int, at::Tensor>& in, ParamId first) {
  const auto place = in.find(first.index);
  return place == in.end() ? kNone : place->second;
}

}  // namespace

Params::Params(const Layout& layout, const Options& options)
    : Params(std::make_shared<Layout>(layout), zero_rows(options.clients, layout.trainable_size(), options.device),
             options.gradients ? zero_rows(options.clients, layout.trainable_size(), options.device) : at::Tensor(),
             torch::zeros({layout.frozen_size()}, at::TensorOptions(options.device).dtype(at::kFloat)),
             std::make_shared<FrozenHalf>(), nullptr) {}

Params::Params(std::shared_ptr<const Layout> layout, at::Tensor values, at::Tensor grads, at::Tensor frozen,
               std::shared_ptr<FrozenHalf> frozen_half, std::shared_ptr<const FrozenLeaves> frozen_leaves)
    : layout_(std::move(layout)),
      values_(std::move(values)),
      grads_(std::move(grads)),
      frozen_(std::move(frozen)),
      frozen_half_(std::move(frozen_half)),
      frozen_leaves_(frozen_leaves ? std::move(frozen_leaves) : Params::frozen_leaves(*layout_, frozen_)) {
  prepare_torch();
  if (grads_.defined()) {
    written_ = c10::make_intrusive<Written>();
    written_->parameters.assign(layout_->specs().size(), 1);  // until begin_grads gradients are what they are
    written_->uses.assign(layout_->specs().size(), 0);
  }
  make_leaves();
}

Params Params::cohort_of(const Params& base, std::int64_t clients, bool gradients) {
  Params cohort = cohort_from(base, clients, gradients, base.values_[0]);
  if (gradients) cohort.grads_.zero_();
  return cohort;
}

Params Params::cohort_from(const Params& base, std::int64_t clients, bool gradients, const at::Tensor& start) {
  const std::int64_t size = base.layout().trainable_size();
  check(start.size(-1) == size, "the start is of another model");
  const at::Tensor values = empty_rows(clients, size, base.device());
  values.copy_((start.dim() == 1 ? start.unsqueeze(0) : start).expand({clients, size}));
  return Params(base.layout_, values, gradients ? empty_rows(clients, size, base.device()) : at::Tensor(), base.frozen_,
                base.frozen_half_, base.frozen_leaves_);
}

Params Params::cohort_at(const Params& base, std::int64_t clients, const at::Tensor& start, bool gradients) {
  const std::int64_t size = base.layout().trainable_size();
  check(start.size(-1) == size, "the start is of another model");
  return Params(base.layout_, (start.dim() == 1 ? start.unsqueeze(0) : start).expand({clients, size}),
                gradients ? empty_rows(clients, size, base.device()) : at::Tensor(), base.frozen_, base.frozen_half_,
                base.frozen_leaves_);
}

Params Params::with_own_values() const {
  Params result(layout_, empty_rows(clients(), values_.size(1), device()), grads_, frozen_, frozen_half_,
                frozen_leaves_);
  result.halves_ = halves_;
  result.half_frozen_leaves_ = half_frozen_leaves_;
  result.half_leaves_ = half_leaves_;
  result.half_joined_ = half_joined_;
  return result;
}

Params Params::on(std::shared_ptr<const Layout> layout, std::int64_t clients, const Params& base) {
  check(base.frozen_.size(0) == layout->frozen_size(), "the frozen vector is of another model");
  const at::Tensor values = empty_rows(clients, layout->trainable_size(), base.device());
  const at::Tensor gradients = empty_rows(clients, layout->trainable_size(), base.device());
  return Params(std::move(layout), values, gradients, base.frozen_, base.frozen_half_, nullptr);
}

Params Params::over(const Layout& layout, const at::Tensor& frozen) {
  check(frozen.size(0) == layout.frozen_size(), "the frozen vector is of another model");
  return Params(std::make_shared<Layout>(layout), zero_rows(1, layout.trainable_size(), frozen.device()), at::Tensor(),
                frozen, std::make_shared<FrozenHalf>(), nullptr);
}

std::shared_ptr<const Params::FrozenLeaves> Params::frozen_leaves(const Layout& layout, const at::Tensor& frozen) {
  auto result = std::make_shared<FrozenLeaves>();
  const auto view = [&](const ParamSpec& spec) { return frozen.narrow(0, spec.offset, spec.count).view(spec.shape); };
  for (const ParamSpec& spec : layout.specs()) result->single.push_back(spec.trainable ? at::Tensor() : view(spec));
  for (const auto& [first, count] : layout.joints()) {
    const auto spec = joined_spec(layout, first, count);
    if (spec && !spec->trainable) result->joined[first] = view(*spec);
  }
  return result;
}

void Params::make_leaves() {
  leaves_ = frozen_leaves_->single;
  joined_ = frozen_leaves_->joined;
  const auto view = [&](const ParamSpec& spec) {
    at::Tensor leaf = slice(values_, spec).detach();
    if (grads_.defined()) {
      leaf.set_requires_grad(true);
      leaf.mutable_grad() = slice(grads_, spec);
    }
    return leaf;
  };
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    if (layout_->specs()[i].trainable) leaves_[i] = view(layout_->specs()[i]);
  }
  for (const auto& [first, count] : layout_->joints()) {
    const auto spec = joined_spec(*layout_, first, count);
    if (spec && spec->trainable) joined_[first] = view(*spec);
  }
}

const at::Tensor& Params::joined(ParamId first) const { return found(joined_, first); }
const at::Tensor& Params::half_joined(ParamId first) const { return found(half_joined_, first); }

Params Params::client(std::int64_t index) const { return rows(index, 1); }

Params Params::first(std::int64_t count) const { return rows(0, count); }

Params Params::rows(std::int64_t begin, std::int64_t count) const {
  check(begin >= 0 && count >= 1 && begin + count <= clients(), "no such clients in the cohort");
  Params result(layout_, values_.narrow(0, begin, count),
                grads_.defined() ? grads_.narrow(0, begin, count) : at::Tensor(), frozen_, frozen_half_,
                frozen_leaves_);
  result.half_frozen_leaves_ = half_frozen_leaves_;
  if (halves_.defined()) result.take_halves(halves_.narrow(0, begin, count));
  return result;
}

void Params::zero_grads() {
  grads_.zero_();
  std::fill(written_->parameters.begin(), written_->parameters.end(), std::uint8_t{1});
}

void Params::begin_grads(std::int64_t used, Taker taker) {
  written_->taker = std::move(taker);
  std::fill(written_->uses.begin(), written_->uses.end(), std::uint8_t{0});
  const std::int64_t products = layout_->products_size();
  std::vector<std::pair<std::int64_t, std::int64_t>> others{{products, products}, {used, used}};  // written later, too
  for (std::size_t i = 0; i < written_->parameters.size(); ++i) {
    const ParamSpec& spec = layout_->specs()[i];
    const bool first = spec.trainable && spec.offset < products, table = spec.trainable && spec.head_table;
    written_->parameters[i] = first || table ? 0 : 1;
    if (table && !first) others.emplace_back(spec.offset, spec.offset + spec.count);
  }
  std::sort(others.begin(), others.end());
  for (std::size_t i = 1; i < others.size(); ++i) {
    const auto begin = others[i - 1].second, end = std::min(others[i].first, used);
    if (end > begin) clear(grads_.narrow(1, begin, end - begin));
  }
}

void Params::end_grads() {
  written_->taker = {};
  for (std::size_t i = 0; i < written_->parameters.size(); ++i) {
    if (written_->parameters[i] != 0) continue;
    const ParamSpec& spec = layout_->specs()[i];
    grads_.narrow(1, spec.offset, spec.count).zero_();
    written_->parameters[i] = 1;
  }
}

Params Params::with_halves() const {
  Params result = with_unset_halves();
  put_as_bfloat16(result.halves_, values_);
  return result;
}

Params Params::with_unset_halves() const {
  Params result = *this;
  const at::NoGradGuard no_grad;
  {
    const std::lock_guard lock(frozen_half_->mutex);
    if (!frozen_half_->numbers.defined() || frozen_half_->version != frozen_._version()) {
      frozen_half_->numbers = as_bfloat16(frozen_);
      frozen_half_->version = static_cast<std::uint32_t>(frozen_._version());
      frozen_half_->leaves = nullptr;
    }
    if (!frozen_half_->leaves || frozen_half_->layout != layout_) {
      frozen_half_->leaves = frozen_leaves(*layout_, frozen_half_->numbers);
      frozen_half_->layout = layout_;
    }
    result.half_frozen_leaves_ = frozen_half_->leaves;
  }
  result.take_halves(empty_rows(clients(), values_.size(1), device(), at::kBFloat16));
  return result;
}

void Params::take_halves(const at::Tensor& halves) {
  halves_ = halves;
  half_leaves_ = half_frozen_leaves_->single;
  half_joined_ = half_frozen_leaves_->joined;
  for (std::size_t i = 0; i < half_leaves_.size(); ++i) {
    if (layout_->specs()[i].trainable) half_leaves_[i] = slice(halves_, layout_->specs()[i]);
  }
  for (const auto& [first, count] : layout_->joints()) {
    const auto spec = joined_spec(*layout_, first, count);
    if (spec && spec->trainable) half_joined_[first] = slice(halves_, *spec);
  }
}

const at::Tensor& Params::half(ParamId id) const {
  return halves_.defined() ? half_leaves_[static_cast<std::size_t>(id.index)] : kNone;
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
