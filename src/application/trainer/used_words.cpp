#include "application/trainer/used_words.h"

#include <algorithm>

#include "core/error.h"
#include "core/kernels.h"
#include "core/torch_runtime.h"

namespace chorus {
namespace {

at::Tensor one_or_each(const at::Tensor& start) { return start.dim() == 1 ? start.unsqueeze(0) : start; }

}  // namespace

bool UsedWords::possible(const Layout& layout, const Embedding& words) {
  const ParamSpec& table = layout[words.table];
  // So that the other parameters keep their order (Layout::place); 1000: rows up to the padding's are always used.
  return fast_kernels() && table.trainable && table.shape[1] % 16 == 0 && words.padding < 1000;
}

UsedWords::UsedWords(const Layout& layout, const Embedding& words, std::span<const ClientData* const> clients,
                     at::Device device)
    : begin_(layout[words.table].offset), size_(layout[words.table].count), width_(layout[words.table].shape[1]) {
  const std::int64_t vocabulary = layout[words.table].shape[0];
  const auto cohort = static_cast<std::int64_t>(clients.size());
  names_ = torch::zeros({cohort, vocabulary}, at::kLong);
  std::vector<std::vector<std::int64_t>> used(clients.size());
  std::int64_t most = 0;
  for (std::size_t c = 0; c < clients.size(); ++c) {
    auto* name = names_.data_ptr<std::int64_t>() + static_cast<std::int64_t>(c) * vocabulary;
    // The row of the padding, which has no gradient by its number, keeps it.
    std::fill_n(name, std::min(std::max<std::int64_t>(words.padding, 0) + 1, vocabulary), 1);
    for (const std::uint32_t row : clients[c]->rows) {
      for (const std::int32_t id : clients[c]->data->ids(row)) name[id] = 1;
    }
    for (std::int64_t id = 0; id < vocabulary; ++id) {
      if (name[id] == 0) continue;
      name[id] = static_cast<std::int64_t>(used[c].size());
      used[c].push_back(id);
    }
    counts_.push_back(static_cast<std::int64_t>(used[c].size()));
    most = std::max(most, counts_.back());
  }
  rows_ = torch::zeros({cohort, most}, at::kLong);
  for (std::size_t c = 0; c < clients.size(); ++c) {
    std::copy(used[c].begin(), used[c].end(), rows_.data_ptr<std::int64_t>() + static_cast<std::int64_t>(c) * most);
  }
  rows_ = sent_to(device, rows_);
  names_ = sent_to(device, names_);
  layout_ = std::make_shared<Layout>(layout.with_rows(words.table, most));
}

Params UsedWords::params(const Params& base, const at::Tensor& start) const {
  const at::NoGradGuard no_grad;
  const std::int64_t cohort = rows_.size(0), part = rows_.size(1) * width_;
  const at::Tensor whole = one_or_each(start);
  check(whole.size(1) == layout_->trainable_size() - part + size_, "the start is of another model");
  Params params = Params::on(layout_, cohort, base);
  const at::Tensor& values = params.values();
  const std::int64_t rest = whole.size(1) - begin_ - size_;
  values.narrow(1, 0, begin_).copy_(whole.narrow(1, 0, begin_).expand({cohort, begin_}));
  values.narrow(1, begin_ + part, rest).copy_(whole.narrow(1, begin_ + size_, rest).expand({cohort, rest}));
  for (std::int64_t c = 0; c < cohort; ++c) {
    const at::Tensor table = whole[whole.size(0) == 1 ? 0 : c].narrow(0, begin_, size_).view({-1, width_});
    values[c].narrow(0, begin_, part).view({-1, width_}).copy_(table.index_select(0, rows_[c]));
  }
  return params;
}

at::Tensor UsedWords::rename(const at::Tensor& ids) const { return names_.narrow(0, 0, ids.size(0)).gather(1, ids); }

at::Tensor UsedWords::spread(const at::Tensor& values, const at::Tensor& start) const {
  const at::NoGradGuard no_grad;
  const std::int64_t cohort = values.size(0), part = rows_.size(1) * width_;
  const at::Tensor whole = one_or_each(start);
  const std::int64_t rest = whole.size(1) - begin_ - size_;
  const at::Tensor result = torch::empty({cohort, whole.size(1)}, values.options());
  result.narrow(1, 0, begin_).copy_(values.narrow(1, 0, begin_));
  result.narrow(1, begin_, size_).copy_(whole.narrow(1, begin_, size_).expand({cohort, size_}));
  result.narrow(1, begin_ + size_, rest).copy_(values.narrow(1, begin_ + part, rest));
  for (std::int64_t c = 0; c < cohort; ++c) {
    const std::int64_t count = counts_[static_cast<std::size_t>(c)];
    const at::Tensor mine = values[c].narrow(0, begin_, count * width_).view({count, width_});
    result[c].narrow(0, begin_, size_).view({-1, width_}).index_copy_(0, rows_[c].narrow(0, 0, count), mine);
  }
  return result;
}

}  // namespace chorus
