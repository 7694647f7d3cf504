#include "application/models/ops/packing.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/device/torch_runtime.h"

namespace chorus::inline ops {
namespace {

// On a GPU, T and L are multiples of these: each new shape costs cuBLAS a search for the best kernel, and a step of a
// new shape must be recorded.
std::int64_t gpu_multiple(std::int64_t count) { return count <= 128 ? 16 : 128; }

std::int64_t round_up(std::int64_t number, std::int64_t multiple) {
  return (number + multiple - 1) / multiple * multiple;
}

template <typename Pieces>
std::int64_t count(const Pieces& pieces) {
  std::int64_t result = 0;
  for (const auto& piece : pieces) result += c10::multiply_integers(piece.second);
  return result;
}

// Makes the pieces consecutive views of `buffer`.
template <typename Pieces>
void cut(const at::Tensor& buffer, const Pieces& pieces) {
  std::int64_t begin = 0;
  for (const auto& [piece, shape] : pieces) {
    const std::int64_t size = c10::multiply_integers(shape);
    *piece = buffer.narrow(0, begin, size).view(shape);
    begin += size;
  }
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
  dense_ = std::all_of(lengths.begin(), lengths.end(), [&](const auto& row) {
    return static_cast<std::int64_t>(row.size()) == sequences_ &&
           std::all_of(row.begin(), row.end(), [&](std::int64_t length) { return length == longest_; });
  });
  if (!device.is_cpu() && !dense_) {
    tokens_ = round_up(tokens_, gpu_multiple(tokens_));
    longest_ = round_up(longest_, gpu_multiple(longest_));
  }

  numbers_ = torch::zeros({count(numbers())}, at::kLong);
  flags_ = torch::zeros({count(flags())}, at::kBool);
  cut_all();

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
  std::vector<std::int64_t> all_lengths;
  for (std::int64_t c = 0; c < clients_; ++c) {
    const auto& row = lengths[static_cast<std::size_t>(c)];
    all_lengths.insert(all_lengths.end(), row.begin(), row.end());
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
    // The tail reads from its own client, so that a NaN stays with the client that caused it.
    const std::int64_t own = slot_of[c * tokens_];
    for (; column < tokens_; ++column) slot_of[c * tokens_ + column] = own;
  }
  std::int64_t* longest_first = places + 6 * total_;
  std::iota(longest_first, longest_first + total_, 0);
  std::stable_sort(longest_first, longest_first + total_, [&](std::int64_t a, std::int64_t b) {
    return all_lengths[static_cast<std::size_t>(a)] > all_lengths[static_cast<std::size_t>(b)];
  });
  if (!device.is_cpu()) {
    numbers_ = sent_to(device, numbers_);
    flags_ = sent_to(device, flags_);
    cut_all();
  }
}

// All indices are in one buffer and all flags in another, so that a GPU gets them in two copies.
Packing::Pieces Packing::numbers() {
  return {{&positions_, {clients_, tokens_}}, {&owner_, {clients_, tokens_}}, {&first_, {clients_, sequences_}},
          {&last_, {clients_, sequences_}},   {&places_, {7, total_}},        {&token_at_, {total_ * longest_}},
          {&slot_of_, {clients_ * tokens_}}};
}

Packing::Pieces Packing::flags() {
  return {{&token_valid_, {clients_, tokens_}},
          {&sequence_valid_, {clients_, sequences_}},
          {&attendable_, {total_, longest_}}};
}

void Packing::cut_all() {
  cut(numbers_, numbers());
  cut(flags_, flags());
  client_of_ = places_[0];
  sequence_of_ = places_[1];
  length_of_ = places_[4];
}

Packing Packing::held() const {
  check(!visible_.defined(), "a packing with hidden tokens is not held");
  Packing result = *this;
  result.lengths_.clear();
  result.numbers_ = numbers_.clone();
  result.flags_ = flags_.clone();
  result.cut_all();
  return result;
}

std::vector<std::int64_t> Packing::shape() const {
  return {clients_, tokens_, sequences_, total_, longest_, dense_ ? 1 : 0, visible_.defined() ? 1 : 0};
}

void Packing::take(const Packing& other) {
  check(shape() == other.shape(), "the packing has another shape");
  numbers_.copy_(other.numbers_);
  flags_.copy_(other.flags_);
}

const std::vector<std::vector<std::int64_t>>& Packing::lengths() const {
  check(!lengths_.empty(), "a packing that is held has no lengths");
  return lengths_;
}

at::Tensor Packing::places(const Packing& queries, const Packing& keys) {
  if (&queries == &keys || queries.places_.is_same(keys.places_)) return queries.places_;
  const at::Tensor &q = queries.places_, &k = keys.places_;
  return torch::stack({q[0], q[1], q[2], k[2], q[4], k[4], k[6]});
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

}  // namespace chorus::inline ops
