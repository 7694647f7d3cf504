#include "application/trainer/used_words.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/device/backend.h"
#include "core/device/kernels.h"
#include "core/device/torch_runtime.h"

namespace chorus::inline trainer {
namespace {

constexpr std::int64_t kUnused = -1;

at::Tensor one_or_each(const at::Tensor& start) { return start.dim() == 1 ? start.unsqueeze(0) : start; }

}  // namespace

bool UsedWords::possible(const Layout& layout, const Embedding& words) {
  const ParamSpec& table = layout[words.table];
  // 16: the width of a memory access; 1000: rows up to the padding's are always used.
  return fast_kernels() && table.trainable && table.shape[1] % 16 == 0 && words.padding < 1000;
}

UsedWords::UsedWords(const Layout& layout, const Embedding& words, std::span<ClientBatches> batches, at::Device device)
    : begin_(layout[words.table].offset), size_(layout[words.table].count), width_(layout[words.table].shape[1]) {
  const std::int64_t vocabulary = layout[words.table].shape[0], always = std::max<std::int64_t>(words.padding, -1) + 1;
  const auto cohort = static_cast<std::int64_t>(batches.size());
  names_ = torch::full({cohort, vocabulary}, kUnused, at::kLong);
  std::vector<std::vector<std::int64_t>> used(batches.size());
  for (std::size_t c = 0; c < batches.size(); ++c) {
    auto* name = names_.data_ptr<std::int64_t>() + static_cast<std::int64_t>(c) * vocabulary;
    const auto use = [&](std::int64_t id) {
      if (name[id] != kUnused) return;
      name[id] = static_cast<std::int64_t>(used[c].size());
      used[c].push_back(id);
    };
    // The padding row has no gradient because of its id, so it keeps that id.
    for (std::int64_t id = 0; id < std::min(always, vocabulary); ++id) use(id);
    for (std::int64_t number = 0; number < batches[c].count(); ++number) {
      for (const std::uint32_t row : batches[c].at(number)) {
        for (const std::int32_t id : batches[c].data().ids(row)) use(id);
      }
      if (number == static_cast<std::int64_t>(until_.size())) until_.push_back(until_.empty() ? 0 : until_.back());
      until_[static_cast<std::size_t>(number)] =
          std::max(until_[static_cast<std::size_t>(number)], static_cast<std::int64_t>(used[c].size()));
    }
    counts_.push_back(static_cast<std::int64_t>(used[c].size()));
  }
  // A client with fewer batches has used all its words by its last one.
  for (std::size_t i = 1; i < until_.size(); ++i) until_[i] = std::max(until_[i], until_[i - 1]);
  const std::int64_t most = until_.back();
  rows_ = torch::zeros({cohort, most}, at::kLong);
  for (std::size_t c = 0; c < batches.size(); ++c) {
    std::copy(used[c].begin(), used[c].end(), rows_.data_ptr<std::int64_t>() + static_cast<std::int64_t>(c) * most);
  }
  rows_ = sent_to(device, rows_);
  names_ = sent_to(device, names_.clamp_min_(0));
  layout_ = std::make_shared<Layout>(layout.with_rows(words.table, most));
}

std::int64_t UsedWords::elements_until(std::int64_t batch) const {
  constexpr std::int64_t kTogether = 16;
  const auto place = std::min(static_cast<std::size_t>(batch), until_.size() - 1);
  const std::int64_t all = layout_->trainable_size(), unused = (until_.back() - until_[place]) * width_;
  return std::min(all, (all - unused + kTogether - 1) / kTogether * kTogether);
}

Params UsedWords::params(const Params& base, const at::Tensor& start, bool shadow) const {
  const at::NoGradGuard no_grad;
  const std::int64_t cohort = rows_.size(0), part = rows_.size(1) * width_;
  const at::Tensor whole = one_or_each(start);
  check(whole.size(1) == layout_->trainable_size() - part + size_, "the start is of another model");
  Params params = Params::unset_cohort(layout_, cohort, base);
  if (uses_gpu_kernels(params.values())) {
    if (shadow) params = params.with_unset_shadow();
    gpu_begin_values(params.values(), params.shadow().values(), start, places());
    return params;
  }
  const at::Tensor& values = params.values();
  const std::int64_t rest = whole.size(1) - begin_ - size_;
  values.narrow(1, 0, begin_).copy_(whole.narrow(1, 0, begin_).expand({cohort, begin_}));
  values.narrow(1, begin_, rest).copy_(whole.narrow(1, begin_ + size_, rest).expand({cohort, rest}));
  for (std::int64_t c = 0; c < cohort; ++c) {
    const at::Tensor table = whole[whole.size(0) == 1 ? 0 : c].narrow(0, begin_, size_).view({-1, width_});
    values[c].narrow(0, begin_ + rest, part).view({-1, width_}).copy_(table.index_select(0, rows_[c]));
  }
  return shadow ? params.with_shadow() : params;
}

at::Tensor UsedWords::rename(const at::Tensor& ids) const { return names_.narrow(0, 0, ids.size(0)).gather(1, ids); }

at::Tensor UsedWords::spread(const at::Tensor& values, const at::Tensor& start) const {
  const at::NoGradGuard no_grad;
  const std::int64_t cohort = values.size(0);
  const at::Tensor whole = one_or_each(start);
  const std::int64_t rest = whole.size(1) - begin_ - size_;
  const at::Tensor result = torch::empty({cohort, whole.size(1)}, values.options());
  result.narrow(1, 0, begin_).copy_(values.narrow(1, 0, begin_));
  result.narrow(1, begin_, size_).copy_(whole.narrow(1, begin_, size_).expand({cohort, size_}));
  result.narrow(1, begin_ + size_, rest).copy_(values.narrow(1, begin_, rest));
  for (std::int64_t c = 0; c < cohort; ++c) {
    const std::int64_t count = counts_[static_cast<std::size_t>(c)];
    const at::Tensor mine = values[c].narrow(0, begin_ + rest, count * width_).view({count, width_});
    result[c].narrow(0, begin_, size_).view({-1, width_}).index_copy_(0, rows_[c].narrow(0, 0, count), mine);
  }
  return result;
}

}  // namespace chorus::inline trainer
