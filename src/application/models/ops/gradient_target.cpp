#include "application/models/ops/gradient_target.h"

#include <algorithm>

namespace chorus::inline ops {

bool GradientTarget::take(const at::Tensor& gradient) const {
  const auto begin = writes->written.begin() + first, end = begin + count;
  const auto known = std::count(begin, end, std::uint8_t{1});
  if (known != 0 && known != count) {
    const std::int64_t dimension = gradient.dim() - 2, rows = gradient.size(dimension) / count;
    for (int i = 0; i < count; ++i) {
      if (begin[i] == 0) gradient.narrow(dimension, i * rows, rows).zero_();
    }
  }
  std::fill(begin, end, std::uint8_t{1});
  return known != 0;
}

void GradientTarget::keep(torch::autograd::AutogradContext& context, const c10::intrusive_ptr<GradientTarget>& target) {
  if (target) context.saved_data["target"] = torch::IValue::make_capsule(target);
}

c10::intrusive_ptr<GradientTarget> GradientTarget::kept(torch::autograd::AutogradContext& context) {
  const auto kept = context.saved_data.find("target");
  if (kept == context.saved_data.end()) return {};
  return c10::static_intrusive_pointer_cast<GradientTarget>(kept->second.toCapsule());
}

bool GradientTarget::take_kept(torch::autograd::AutogradContext& context, const at::Tensor& gradient) {
  const auto target = kept(context);
  return !target || target->take(gradient);
}

bool GradientTarget::given() const {
  if (!writes->taker) return false;
  const auto once = [this](const std::vector<std::uint8_t>& of, std::uint8_t number) {
    return std::all_of(of.begin() + first, of.begin() + first + count, [&](auto n) { return n == number; });
  };
  return once(writes->uses, 1) && once(writes->written, 0);
}

void GradientTarget::give(const at::Tensor& gradient) const {
  std::fill_n(writes->written.begin() + first, count, std::uint8_t{1});
  writes->taker(offset, gradient);
}

c10::intrusive_ptr<GradientTarget> gradient_target(const Params& params, ParamId first, int count) {
  if (!params.trainable(first) || !params.shared_writes()) return {};
  for (int i = first.index; i < first.index + count; ++i) {
    std::uint8_t& uses = params.writes().uses[static_cast<std::size_t>(i)];
    if (uses < 2) ++uses;
  }
  return c10::make_intrusive<GradientTarget>(params.shared_writes(), first.index, count, params.layout()[first].offset);
}

}  // namespace chorus::inline ops
