#include "application/models/ops/packing.h"

#include "core/error.h"

namespace chorus {

Packing::Packing(const std::vector<std::vector<std::int64_t>>& lengths, at::Device device) : lengths_(lengths) {
  clients_ = static_cast<std::int64_t>(lengths.size());
  check(clients_ > 0, "a packing needs a client");
  for (const auto& row : lengths) {
    check(!row.empty(), "every client of a packing needs a sequence");
    std::int64_t sum = 0;
    for (const std::int64_t length : row) {
      check(length > 0, "a sequence needs a token");
      longest_ = std::max(longest_, length);
      sum += length;
    }
    tokens_ = std::max(tokens_, sum);
    sequences_ = std::max(sequences_, static_cast<std::int64_t>(row.size()));
    total_ += static_cast<std::int64_t>(row.size());
  }

  const auto integers = at::TensorOptions().dtype(at::kLong);
  const auto flags = at::TensorOptions().dtype(at::kBool);
  positions_ = torch::zeros({clients_, tokens_}, integers);
  owner_ = torch::zeros({clients_, tokens_}, integers);
  token_valid_ = torch::zeros({clients_, tokens_}, flags);
  first_ = torch::zeros({clients_, sequences_}, integers);
  last_ = torch::zeros({clients_, sequences_}, integers);
  sequence_valid_ = torch::zeros({clients_, sequences_}, flags);
  client_of_ = torch::zeros({total_}, integers);
  sequence_of_ = torch::zeros({total_}, integers);
  attendable_ = torch::zeros({total_, longest_}, flags);
  token_at_ = torch::zeros({total_ * longest_}, integers);
  slot_of_ = torch::zeros({clients_ * tokens_}, integers);

  auto* positions = positions_.data_ptr<std::int64_t>();
  auto* owner = owner_.data_ptr<std::int64_t>();
  auto* token_valid = token_valid_.data_ptr<bool>();
  auto* attendable = attendable_.data_ptr<bool>();
  auto* first = first_.data_ptr<std::int64_t>();
  auto* last = last_.data_ptr<std::int64_t>();
  auto* sequence_valid = sequence_valid_.data_ptr<bool>();
  auto* client_of = client_of_.data_ptr<std::int64_t>();
  auto* sequence_of = sequence_of_.data_ptr<std::int64_t>();
  auto* token_at = token_at_.data_ptr<std::int64_t>();
  auto* slot_of = slot_of_.data_ptr<std::int64_t>();
  std::int64_t n = 0;
  for (std::int64_t c = 0; c < clients_; ++c) {
    const auto& row = lengths[static_cast<std::size_t>(c)];
    std::int64_t column = 0;
    for (std::int64_t b = 0; b < static_cast<std::int64_t>(row.size()); ++b, ++n) {
      const std::int64_t length = row[static_cast<std::size_t>(b)];
      first[c * sequences_ + b] = column;
      last[c * sequences_ + b] = column + length - 1;
      sequence_valid[c * sequences_ + b] = true;
      client_of[n] = c;
      sequence_of[n] = b;
      for (std::int64_t i = 0; i < longest_; ++i) {
        const std::int64_t token = c * tokens_ + column + std::min(i, length - 1);
        token_at[n * longest_ + i] = token;
        if (i >= length) continue;
        attendable[n * longest_ + i] = true;
        positions[token] = i;
        owner[token] = b;
        token_valid[token] = true;
        slot_of[token] = n * longest_ + i;
      }
      column += length;
    }
    // The tail reads from its own client: a number that is not one stays with whoever made it.
    const std::int64_t own = slot_of[c * tokens_];
    for (; column < tokens_; ++column) slot_of[c * tokens_ + column] = own;
  }
  dense_ = total_ * longest_ == clients_ * tokens_ && token_valid_.all().item<bool>();

  for (at::Tensor* tensor : {&positions_, &owner_, &token_valid_, &first_, &last_, &sequence_valid_, &client_of_,
                             &sequence_of_, &attendable_, &token_at_, &slot_of_}) {
    *tensor = tensor->to(device);
  }
}

Packing Packing::with_visible(const at::Tensor& visible) const {
  Packing result = *this;
  result.visible_ = visible;
  result.attendable_ = attendable_.logical_and(unpack(visible));
  return result;
}

at::Tensor Packing::unpack(const at::Tensor& packed) const {
  std::vector<std::int64_t> shape = packed.sizes().vec();
  shape[0] = total_;
  shape[1] = longest_;
  if (dense_) return packed.reshape(shape);
  return packed.flatten(0, 1).index_select(0, token_at_).view(shape);
}

at::Tensor Packing::pack(const at::Tensor& padded) const {
  std::vector<std::int64_t> shape = padded.sizes().vec();
  shape[0] = clients_;
  shape[1] = tokens_;
  if (dense_) return padded.reshape(shape);
  return padded.flatten(0, 1).index_select(0, slot_of_).view(shape);
}

at::Tensor Packing::pick(const at::Tensor& packed, const at::Tensor& columns) {
  const std::int64_t clients = packed.size(0), tokens = packed.size(1);
  const at::Tensor rows = torch::arange(clients, columns.options()).unsqueeze(1) * tokens + columns;
  std::vector<std::int64_t> shape = packed.sizes().vec();
  shape[1] = columns.size(1);
  return packed.flatten(0, 1).index_select(0, rows.flatten()).view(shape);
}

}  // namespace chorus
