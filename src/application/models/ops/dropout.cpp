#include "application/models/ops/dropout.h"

#include <ATen/Parallel.h>

#include <cmath>

#include "core/error.h"
#include "core/rng.h"

namespace chorus {
namespace {

// One 64-bit hash serves four neighbouring elements, 16 bits each. Starts of rows are multiples of 4.
constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15ULL;
constexpr std::uint64_t kFirst = 0xBF58476D1CE4E5B9ULL;
constexpr std::uint64_t kSecond = 0x94D049BB133111EBULL;

inline std::uint64_t hash_group(std::uint64_t key, std::uint64_t group) {
  std::uint64_t z = key + kGolden * group;
  z = (z ^ (z >> 30)) * kFirst;
  z = (z ^ (z >> 27)) * kSecond;
  return z ^ (z >> 31);
}

std::uint64_t threshold_of(double probability) {
  return static_cast<std::uint64_t>(std::llround(probability * 65536.0));
}

float scale_of(std::uint64_t threshold) {
  return static_cast<float>(65536.0 / (65536.0 - static_cast<double>(threshold)));
}

at::Tensor shift_right(const at::Tensor& x, int bits) {
  const std::int64_t low_bits = (std::int64_t{1} << (64 - bits)) - 1;
  return x.__rshift__(bits).__and__(low_bits);
}

}  // namespace

at::Tensor keep_mask(const at::Tensor& row_keys, const at::Tensor& row_starts, std::int64_t width, double probability) {
  if (!row_keys.is_cpu()) return keep_mask_reference(row_keys, row_starts, width, probability);
  const std::int64_t rows = row_keys.size(0);
  at::Tensor mask = torch::empty({rows, width}, at::kFloat);
  const auto* keys = row_keys.data_ptr<std::int64_t>();
  const auto* starts = row_starts.data_ptr<std::int64_t>();
  auto* out = mask.data_ptr<float>();
  const std::uint64_t threshold = threshold_of(probability);
  const float scale = scale_of(threshold);
  at::parallel_for(0, rows, std::max<std::int64_t>(1, 32768 / width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const auto key = static_cast<std::uint64_t>(keys[r]);
      const auto first_group = static_cast<std::uint64_t>(starts[r]) / 4;
      float* row = out + r * width;
      const std::int64_t groups = width / 4;
      for (std::int64_t g = 0; g < groups; ++g) {
        const std::uint64_t bits = hash_group(key, first_group + static_cast<std::uint64_t>(g));
        row[4 * g] = (bits & 0xFFFF) < threshold ? 0.0f : scale;
        row[4 * g + 1] = ((bits >> 16) & 0xFFFF) < threshold ? 0.0f : scale;
        row[4 * g + 2] = ((bits >> 32) & 0xFFFF) < threshold ? 0.0f : scale;
        row[4 * g + 3] = (bits >> 48) < threshold ? 0.0f : scale;
      }
      for (std::int64_t j = groups * 4; j < width; ++j) {
        const std::uint64_t bits = hash_group(key, first_group + static_cast<std::uint64_t>(groups));
        row[j] = ((bits >> (16 * (j % 4))) & 0xFFFF) < threshold ? 0.0f : scale;
      }
    }
  });
  return mask;
}

at::Tensor keep_mask_reference(const at::Tensor& row_keys, const at::Tensor& row_starts, std::int64_t width,
                               double probability) {
  const std::int64_t groups = (width + 3) / 4;
  const at::Tensor group = row_starts.div(4, "floor").unsqueeze(1) + torch::arange(groups, row_keys.options());
  at::Tensor z = row_keys.unsqueeze(1) + group * static_cast<std::int64_t>(kGolden);
  z = z.__xor__(shift_right(z, 30)) * static_cast<std::int64_t>(kFirst);
  z = z.__xor__(shift_right(z, 27)) * static_cast<std::int64_t>(kSecond);
  z = z.__xor__(shift_right(z, 31));
  const at::Tensor shifts = torch::arange(4, row_keys.options()) * 16;
  const at::Tensor bits = z.unsqueeze(2).__rshift__(shifts).__and__(0xFFFF).flatten(1, 2).narrow(1, 0, width);
  const std::uint64_t threshold = threshold_of(probability);
  return bits.ge(static_cast<std::int64_t>(threshold)).to(at::kFloat) * scale_of(threshold);
}

at::Tensor Dropout::apply(const at::Tensor& x, double probability, const at::Tensor& row_clients,
                          const at::Tensor& row_starts) {
  const std::uint64_t call = calls_++;
  std::vector<std::int64_t> keys;
  for (const std::uint64_t seed : seeds_) keys.push_back(static_cast<std::int64_t>(mix(seed, call)));
  const at::Tensor row_keys = torch::tensor(keys, at::kLong).to(x.device()).index_select(0, row_clients);
  return x * keep_mask(row_keys, row_starts, x.size(-1), probability).view(x.sizes()).to(x.scalar_type());
}

at::Tensor Dropout::hidden(const at::Tensor& x, double probability) {
  if (!active() || probability == 0) return x;
  const std::int64_t clients = x.size(0), rows = x.size(1), stride = (x.size(2) + 3) / 4 * 4;
  check(clients == static_cast<std::int64_t>(seeds_.size()), "dropout needs one seed a client");
  const auto options = x.options().dtype(at::kLong);
  const at::Tensor row_clients = torch::arange(clients, options).repeat_interleave(rows);
  return apply(x, probability, row_clients, (torch::arange(rows, options) * stride).repeat({clients}));
}

at::Tensor Dropout::weights(const at::Tensor& x, double probability, const Packing& packing) {
  if (!active() || probability == 0) return x;
  // Strides that no sequence outgrows, so that a mask does not depend on how the batch is padded.
  constexpr std::int64_t kLongest = 1 << 16;
  const std::int64_t heads = x.size(1), queries = x.size(2);
  const auto options = x.options().dtype(at::kLong);
  const at::Tensor head = torch::arange(heads, options).view({1, heads, 1});
  const at::Tensor query = torch::arange(queries, options).view({1, 1, queries});
  const at::Tensor row = (packing.sequence_of().view({-1, 1, 1}) * heads + head) * kLongest + query;
  return apply(x, probability, packing.client_of().repeat_interleave(heads * queries), (row * kLongest).flatten());
}

}  // namespace chorus
