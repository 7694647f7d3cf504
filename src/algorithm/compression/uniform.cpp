#include "algorithm/compression/uniform.h"

#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "algorithm/compression/number_loops.h"

namespace chorus::inline compression {
namespace {

// A bucket below this counts as zero: its inverse would overflow.
constexpr float kTiny = 1e-30F;

BucketFrame frame_of(const UniformFilterConfig& config) {
  const bool range = config.scale == UniformFilterConfig::Scale::kRange;
  return {config.bits, range ? 1 : 0, static_cast<std::size_t>(config.bucket), range ? 2U : 1U};
}

struct Grid {
  float origin = 0, step = 0;
};

Grid grid_of(std::span<const float> values, const UniformFilterConfig& config) {
  const int bits = static_cast<int>(config.bits);
  Grid grid;
  if (config.scale == UniformFilterConfig::Scale::kMaxAbs) {
    grid.step = max_magnitude(values) / static_cast<float>((1 << (bits - 1)) - 1);
  } else {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    grid = {*low, (*high - *low) / static_cast<float>((1 << bits) - 1)};
  }
  if (!std::isfinite(grid.step)) throw DataError("the numbers are too large for the filter uniform");
  if (grid.step < kTiny) grid.step = 0;
  return grid;
}

}  // namespace

void describe_bits(ConfigVisitor& visitor, Bits& bits, std::int64_t& bucket) {
  visitor.field("bits", bits, {{"8", Bits::k8}, {"4", Bits::k4}, {"2", Bits::k2}}, "bits per element");
  visitor.field("bucket", bucket, "elements that share a scale; a multiple of 8").at_least(8).at_most(1 << 20);
  visitor.check([&bucket]() -> std::string {
    return bucket % 8 == 0 ? "" : fmt::format("bucket: {} is not a multiple of 8", bucket);
  });
}

void UniformFilterConfig::describe(ConfigVisitor& visitor) {
  describe_bits(visitor, bits, bucket);
  visitor.field("scale", scale, {{"max_abs", Scale::kMaxAbs}, {"range", Scale::kRange}},
                "the grid: symmetric around 0, or from the smallest to the largest element");
  visitor.field("stochastic", stochastic, "unbiased random rounding; else to the nearest");
}

BucketFrame::Places BucketFrame::append(Filter::Bytes& out, std::size_t size) const {
  const std::size_t begin = out.size();
  out.resize(begin + bytes(size));
  std::byte* head = out.data() + begin;
  const auto width = static_cast<std::uint32_t>(bucket);
  head[0] = static_cast<std::byte>(bits);
  head[1] = static_cast<std::byte>(kind);
  head[2] = head[3] = std::byte{0};
  std::memcpy(head + 4, &width, 4);
  return {head + 8, head + 8 + buckets(size) * scales * 4};
}

BucketFrame::Parts BucketFrame::read(std::span<const std::byte> packed, std::size_t size, const char* who) const {
  if (packed.size() != bytes(size)) {
    throw DataError(fmt::format("{} numbers packed by the filter {} should be {} bytes, not {}", size, who, bytes(size),
                                packed.size()));
  }
  Filter::Bytes expected;
  append(expected, 0);
  if (!std::equal(expected.begin(), expected.end(), packed.begin())) {
    throw DataError(fmt::format("they were packed by the filter {} with other options than this side has", who));
  }
  Parts parts{Numbers(buckets(size) * scales), packed.data() + 8 + buckets(size) * scales * 4};
  if (!parts.scales.empty()) std::memcpy(parts.scales.data(), packed.data() + 8, parts.scales.size() * 4);
  for (const float scale : parts.scales) {
    if (!std::isfinite(scale)) throw DataError(fmt::format("a scale of the filter {} is not a number", who));
  }
  return parts;
}

Numbers UniformFilter::encode(std::span<const float> values, Bytes& out, const FilterContext& context) const {
  const BucketFrame frame = frame_of(config_);
  const auto places = frame.append(out, values.size());
  RandomStream stream(context.key);
  const int bits = static_cast<int>(config_.bits);
  const bool range = config_.scale == UniformFilterConfig::Scale::kRange;
  const int most = range ? (1 << bits) - 1 : (1 << (bits - 1)) - 1;
  Numbers noise(frame.bucket, 0.5F);
  std::vector<std::uint8_t> codes(frame.bucket);
  std::byte* scales = places.scales;
  for (std::size_t begin = 0; begin < values.size(); begin += frame.bucket) {
    const auto piece = values.subspan(begin, std::min(frame.bucket, values.size() - begin));
    const Grid grid = grid_of(piece, config_);
    const float inverse = grid.step > 0 ? 1 / grid.step : 0;
    if (config_.stochastic) fill_uniform(stream, std::span(noise).first(piece.size()));
    if (range) {
      quantise_above(piece, noise.data(), grid.origin, inverse, most, codes.data());
      std::memcpy(scales, &grid.origin, 4);
      scales += 4;
    } else {
      quantise_around(piece, noise.data(), inverse, most, most, codes.data());
    }
    std::memcpy(scales, &grid.step, 4);
    scales += 4;
    pack_codes(std::span(codes).first(piece.size()), config_.bits, places.codes + packed_bytes(begin, config_.bits));
  }
  return {};
}

Numbers UniformFilter::decode(std::span<const std::byte> bytes, Numbers, std::size_t size) const {
  const BucketFrame frame = frame_of(config_);
  const auto parts = frame.read(bytes, size, "uniform");
  const bool range = config_.scale == UniformFilterConfig::Scale::kRange;
  const int middle = range ? 0 : (1 << (static_cast<int>(config_.bits) - 1)) - 1;
  Numbers values(size);
  std::vector<std::uint8_t> codes(frame.bucket);
  for (std::size_t begin = 0, bucket = 0; begin < size; begin += frame.bucket, ++bucket) {
    const auto piece = std::span(values).subspan(begin, std::min(frame.bucket, size - begin));
    unpack_codes(parts.codes + packed_bytes(begin, config_.bits), config_.bits, std::span(codes).first(piece.size()));
    const float origin = range ? parts.scales[2 * bucket] : 0;
    const float step = parts.scales[range ? 2 * bucket + 1 : bucket];
    dequantise(codes.data(), middle, origin, step, piece);
  }
  return values;
}

namespace {

const Registration<Filters, UniformFilterConfig> kRegisteredUniform{
    "uniform", "stochastic uniform quantizer, 8, 4 or 2 bits (Konecny et al. 2016)",
    [](const UniformFilterConfig& config) { return std::make_unique<UniformFilter>(config); }};

}  // namespace
}  // namespace chorus::inline compression
