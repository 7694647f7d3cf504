#include "core/tensor/bfloat16_shadow.h"

#include "core/tensor/bfloat16.h"
#include "core/tensor/flat_views.h"

namespace chorus::inline tensor {

std::shared_ptr<const FrozenShadow::Views> FrozenShadow::views(const std::shared_ptr<const Layout>& layout,
                                                               const at::Tensor& frozen) {
  const at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  if (!elements_.defined() || version_ != frozen._version()) {
    elements_ = as_bfloat16(frozen);
    version_ = static_cast<std::uint32_t>(frozen._version());
    views_ = nullptr;
  }
  if (!views_ || layout_ != layout) {
    auto views = std::make_shared<Views>();
    const auto view = [&](const ParamSpec& spec) { return view_of(elements_, spec); };
    for (const ParamSpec& spec : layout->specs()) {
      views->single.push_back(spec.trainable ? at::Tensor() : view(spec));
    }
    views->joined.add(*layout, false, view);
    views_ = std::move(views);
    layout_ = layout;
  }
  return views_;
}

Bfloat16Shadow::Bfloat16Shadow(const Layout& layout, at::Tensor rows, std::shared_ptr<const FrozenShadow::Views> frozen)
    : values_(std::move(rows)), frozen_(std::move(frozen)), views_(frozen_->single), joined_(frozen_->joined) {
  const auto view = [&](const ParamSpec& spec) { return view_of(values_, spec); };
  for (std::size_t i = 0; i < views_.size(); ++i) {
    if (layout.specs()[i].trainable) views_[i] = view(layout.specs()[i]);
  }
  joined_.add(layout, true, view);
}

const at::Tensor& Bfloat16Shadow::operator[](ParamId id) const {
  static const at::Tensor kNone;
  return exists() ? views_[static_cast<std::size_t>(id.index)] : kNone;
}

Bfloat16Shadow Bfloat16Shadow::rows(const Layout& layout, std::int64_t begin, std::int64_t count) const {
  return exists() ? Bfloat16Shadow(layout, values_.narrow(0, begin, count), frozen_) : Bfloat16Shadow();
}

}  // namespace chorus::inline tensor
