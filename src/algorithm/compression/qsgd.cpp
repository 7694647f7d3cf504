#include "algorithm/compression/qsgd.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "algorithm/compression/number_loops.h"

namespace chorus::inline compression {
namespace {

BucketFrame qsgd_frame(const QsgdConfig& config) {
  return {config.bits, config.norm == QsgdConfig::Norm::kL2 ? 2 : 3, static_cast<std::size_t>(config.bucket), 1};
}

float norm_of(std::span<const float> values, QsgdConfig::Norm norm) {
  float size = 0;
  if (norm == QsgdConfig::Norm::kMax) {
    size = max_magnitude(values);
  } else {
    size = static_cast<float>(std::sqrt(sum_of_squares(values)));
  }
  if (!std::isfinite(size)) throw DataError("the numbers are too large for the filter qsgd");
  return size < 1e-30F ? 0 : size;
}

}  // namespace

void QsgdConfig::describe(ConfigVisitor& visitor) {
  describe_bits(visitor, bits, bucket);
  visitor.field("norm", norm, {{"l2", Norm::kL2}, {"max", Norm::kMax}}, "of a bucket; max is less noisy");
}

Numbers QsgdFilter::encode(std::span<const float> values, Bytes& out, const FilterContext& context) const {
  const BucketFrame frame = qsgd_frame(config_);
  const auto places = frame.append(out, values.size());
  RandomStream stream(context.key);
  const int sign = 1 << (static_cast<int>(config_.bits) - 1);
  const int most = sign - 1;
  Numbers noise(frame.bucket);
  std::vector<std::uint8_t> codes(frame.bucket);
  for (std::size_t begin = 0, bucket = 0; begin < values.size(); begin += frame.bucket, ++bucket) {
    const auto piece = values.subspan(begin, std::min(frame.bucket, values.size() - begin));
    const float norm = norm_of(piece, config_.norm);
    const float inverse = norm > 0 ? static_cast<float>(most) / norm : 0;
    fill_uniform(stream, std::span(noise).first(piece.size()));
    quantise_signed(piece, noise.data(), inverse, most, sign, codes.data());
    std::memcpy(places.scales + 4 * bucket, &norm, 4);
    pack_codes(std::span(codes).first(piece.size()), config_.bits, places.codes + packed_bytes(begin, config_.bits));
  }
  return {};
}

Numbers QsgdFilter::decode(std::span<const std::byte> bytes, Numbers, std::size_t size) const {
  const BucketFrame frame = qsgd_frame(config_);
  const auto parts = frame.read(bytes, size, "qsgd");
  const int sign = 1 << (static_cast<int>(config_.bits) - 1);
  Numbers values(size);
  std::vector<std::uint8_t> codes(frame.bucket);
  for (std::size_t begin = 0, bucket = 0; begin < size; begin += frame.bucket, ++bucket) {
    const auto piece = std::span(values).subspan(begin, std::min(frame.bucket, size - begin));
    unpack_codes(parts.codes + packed_bytes(begin, config_.bits), config_.bits, std::span(codes).first(piece.size()));
    const float step = parts.scales[bucket] / static_cast<float>(sign - 1);
    dequantise_signed(codes.data(), sign, step, piece);
  }
  return values;
}

namespace {

const Registration<Filters, QsgdConfig> kRegisteredQsgd{
    "qsgd", "QSGD: stochastic levels of a bucket's norm, 8, 4 or 2 bits (Alistarh et al. 2017)",
    [](const QsgdConfig& config) { return std::make_unique<QsgdFilter>(config); }};

}  // namespace
}  // namespace chorus::inline compression
