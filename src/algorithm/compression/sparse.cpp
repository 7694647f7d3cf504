#include "algorithm/compression/sparse.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "algorithm/compression/bit_packing.h"
#include "algorithm/compression/number_loops.h"

namespace chorus::inline compression {
namespace {

std::uint32_t magnitude(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU; }

// Draws positions, repeating draws that occurred before, and takes them in ascending order. For more than half of the
// positions it draws the excluded ones, so repetitions stay rare.
template <typename Take>
void for_random_positions(std::uint64_t seed, std::size_t count, std::size_t size, Take take) {
  RandomStream stream({.seed = seed, .purpose = "random_k"});
  const bool inverse = count > size / 2;
  std::vector<bool> drawn(size, inverse);
  for (std::size_t wanted = inverse ? size - count : count; wanted > 0;) {
    const std::size_t position = stream.below(size);
    if (drawn[position] != inverse) continue;
    drawn[position] = !inverse;
    --wanted;
  }
  for (std::size_t position = 0; position < size; ++position) {
    if (drawn[position]) take(position);
  }
}

}  // namespace

void SparseConfig::describe(ConfigVisitor& visitor) {
  visitor.field("k", k, "share of the elements that are sent").above(0).at_most(1);
  visitor.field("error_feedback", error_feedback, "remember the others and send them later");
}

std::size_t kept_count(double k, std::size_t size) {
  const auto count = static_cast<std::size_t>(std::llround(k * static_cast<double>(size)));
  return std::clamp<std::size_t>(count, std::min<std::size_t>(size, 1), size);
}

Numbers TopKFilter::encode(std::span<const float> values, Bytes& out, const FilterContext&) const {
  const std::size_t count = kept_count(config_.k, values.size());
  if (count == 0) {
    append_positions({}, 0, out);
    return {};
  }
  const auto [threshold, above] = magnitude_at(values, count);
  std::size_t equal = count - above;  // ties at the threshold to keep, first come first
  std::vector<std::uint32_t> positions;
  Numbers kept;
  positions.reserve(count);
  kept.reserve(count);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t size = magnitude(values[i]);
    if (size < threshold || (size == threshold && equal == 0)) continue;
    if (size == threshold) --equal;
    positions.push_back(static_cast<std::uint32_t>(i));
    kept.push_back(values[i]);
  }
  append_positions(positions, values.size(), out);
  return kept;
}

std::size_t TopKFilter::left(std::span<const std::byte>, std::size_t size) const { return kept_count(config_.k, size); }

Numbers TopKFilter::decode(std::span<const std::byte> bytes, Numbers left, std::size_t size) const {
  const std::vector<std::uint32_t> positions = read_positions(bytes, left.size(), size);
  Numbers values(size, 0.0F);
  for (std::size_t i = 0; i < positions.size(); ++i) values[positions[i]] = left[i];
  return values;
}

Numbers RandomKFilter::encode(std::span<const float> values, Bytes& out, const FilterContext& context) const {
  const std::size_t count = kept_count(config_.k, values.size());
  const std::uint64_t seed = RandomStream(context.key).next_u64();
  append_number(out, seed);
  const auto scale = config_.error_feedback || count == 0
                         ? 1.0F
                         : static_cast<float>(static_cast<double>(values.size()) / static_cast<double>(count));
  Numbers kept;
  kept.reserve(count);
  for_random_positions(seed, count, values.size(),
                       [&](std::size_t position) { kept.push_back(values[position] * scale); });
  return kept;
}

std::size_t RandomKFilter::left(std::span<const std::byte>, std::size_t size) const {
  return kept_count(config_.k, size);
}

Numbers RandomKFilter::decode(std::span<const std::byte> bytes, Numbers left, std::size_t size) const {
  std::uint64_t seed = 0;
  if (bytes.size() != sizeof(seed)) throw DataError("the positions of the filter random_k should be 8 bytes");
  std::memcpy(&seed, bytes.data(), sizeof(seed));
  Numbers values(size, 0.0F);
  std::size_t next = 0;
  for_random_positions(seed, left.size(), size, [&](std::size_t position) { values[position] = left[next++]; });
  return values;
}

namespace {

const Registration<Filters, SparseConfig> kRegisteredTopK{
    "top_k", "only the largest elements, with error feedback (Aji and Heafield 2017)",
    [](const SparseConfig& config) { return std::make_unique<TopKFilter>(config); }};
const Registration<Filters, SparseConfig> kRegisteredRandomK{
    "random_k", "elements at random positions, with error feedback (Stich et al. 2018)",
    [](const SparseConfig& config) { return std::make_unique<RandomKFilter>(config); }};

}  // namespace
}  // namespace chorus::inline compression
