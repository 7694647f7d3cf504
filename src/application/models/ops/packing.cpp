#include "application/models/ops/packing.h"

#include "core/error.h"
#include "core/torch_runtime.h"

namespace chorus {
namespace {

using Pieces = std::vector<std::pair<at::Tensor*, std::vector<std::int64_t>>>;

// T is a multiple of this on a GPU.
constexpr std::int64_t kGpuTokens = 128;

// Makes each piece a view of `buffer`, one after the other.
void cut(const at::Tensor& buffer, const Pieces& pieces) {
  std::int64_t begin = 0;
  for (const auto& [piece, shape] : pieces) {
    const std::int64_t count = c10::multiply_integers(shape);
    *piece = buffer.narrow(0, begin, count).view(shape);
    begin += count;
  }
}

at::Tensor laid_out(const Pieces& pieces, at::ScalarType type) {
  std::int64_t count = 0;
  for (const auto& piece : pieces) count += c10::multiply_integers(piece.second);
  const at::Tensor buffer = torch::zeros({count}, type);
  cut(buffer, pieces);
  return buffer;
}

}  // namespace

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
  // Every new shape costs a GPU's products a search for the best way; so shapes are few. Not where rows are full.
  const bool even = total_ * longest_ == clients_ * tokens_;
  if (!device.is_cpu() && !even) tokens_ = (tokens_ + kGpuTokens - 1) / kGpuTokens * kGpuTokens;

  // All numbers in one buffer and all flags in another, so that a GPU gets them in two copies.
  const Pieces numbers{
      {&positions_, {clients_, tokens_}}, {&owner_, {clients_, tokens_}}, {&first_, {clients_, sequences_}},
      {&last_, {clients_, sequences_}},   {&places_, {6, total_}},        {&token_at_, {total_ * longest_}},
      {&slot_of_, {clients_ * tokens_}}};
  const Pieces flags{{&token_valid_, {clients_, tokens_}},
                     {&sequence_valid_, {clients_, sequences_}},
                     {&attendable_, {total_, longest_}}};
  const at::Tensor all_numbers = laid_out(numbers, at::kLong), all_flags = laid_out(flags, at::kBool);

  auto* positions = positions_.data_ptr<std::int64_t>();
  auto* owner = owner_.data_ptr<std::int64_t>();
  auto* token_valid = token_valid_.data_ptr<bool>();
  auto* attendable = attendable_.data_ptr<bool>();
  auto* first = first_.data_ptr<std::int64_t>();
  auto* last = last_.data_ptr<std::int64_t>();
  auto* sequence_valid = sequence_valid_.data_ptr<bool>();
  auto* places = places_.data_ptr<std::int64_t>();
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
      const std::int64_t begin = c * tokens_ + column;
      const std::int64_t place[6] = {c, b, begin, begin, length, length};
      for (std::int64_t k = 0; k < 6; ++k) places[k * total_ + n] = place[k];
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
  dense_ = even && total_ * longest_ == clients_ * tokens_ && token_valid_.all().item<bool>();

  if (!device.is_cpu()) {
    cut(sent_to(device, all_numbers), numbers);
    cut(sent_to(device, all_flags), flags);
  }
  client_of_ = places_[0];
  sequence_of_ = places_[1];
  length_of_ = places_[4];
}

at::Tensor Packing::places(const Packing& queries, const Packing& keys) {
  if (&queries == &keys || queries.places_.is_same(keys.places_)) return queries.places_;
  const at::Tensor &q = queries.places_, &k = keys.places_;
  return torch::stack({q[0], q[1], q[2], k[2], q[4], k[4]});
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
  const at::Tensor rows =
      clients == 1 ? columns : torch::arange(0, clients * tokens, tokens, columns.options()).unsqueeze(1) + columns;
  std::vector<std::int64_t> shape = packed.sizes().vec();
  shape[1] = columns.size(1);
  return packed.flatten(0, 1).index_select(0, rows.flatten()).view(shape);
}

}  // namespace chorus
