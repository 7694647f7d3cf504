#include "core/tensor/gradient_writes.h"

#include <algorithm>
#include <utility>

namespace chorus::inline tensor {
namespace {

// On a GPU, filling long strided rows one by one is faster.
void clear(const at::Tensor& rows) {
  constexpr std::int64_t kLong = 1 << 18;
  if (rows.is_cpu() || rows.size(1) < kLong) {
    rows.zero_();
  } else {
    for (std::int64_t c = 0; c < rows.size(0); ++c) rows[c].zero_();
  }
}

}  // namespace

GradientWrites::GradientWrites(std::shared_ptr<const Layout> layout, at::Tensor gradients)
    : written(layout->specs().size(), 1),  // until `begin`, all gradients are valid
      uses(layout->specs().size(), 0),
      layout_(std::move(layout)),
      gradients_(std::move(gradients)) {}

void GradientWrites::begin(std::int64_t used, GradientTaker new_taker) {
  taker = std::move(new_taker);
  std::fill(uses.begin(), uses.end(), std::uint8_t{0});
  const std::int64_t matmuls = layout_->matmul_size();
  std::vector<std::pair<std::int64_t, std::int64_t>> others{{matmuls, matmuls}, {used, used}};  // not cleared
  for (std::size_t i = 0; i < written.size(); ++i) {
    const ParamSpec& spec = layout_->specs()[i];
    const bool first = spec.trainable && spec.offset < matmuls;
    const bool table = spec.trainable && layout_->storage().is_head_table(static_cast<int>(i));
    written[i] = first || table ? 0 : 1;
    if (table && !first) others.emplace_back(spec.offset, spec.offset + spec.count);
  }
  std::sort(others.begin(), others.end());
  for (std::size_t i = 1; i < others.size(); ++i) {
    const auto begin = others[i - 1].second, end = std::min(others[i].first, used);
    if (end > begin) clear(gradients_.narrow(1, begin, end - begin));
  }
}

void GradientWrites::end() {
  taker = {};
  for (std::size_t i = 0; i < written.size(); ++i) {
    if (written[i] != 0) continue;
    const ParamSpec& spec = layout_->specs()[i];
    gradients_.narrow(1, spec.offset, spec.count).zero_();
    written[i] = 1;
  }
}

void GradientWrites::zero() {
  gradients_.zero_();
  std::fill(written.begin(), written.end(), std::uint8_t{1});
}

}  // namespace chorus::inline tensor
