#include "algorithm/compression/sign.h"

#include <algorithm>
#include <cmath>

#include "algorithm/compression/number_loops.h"
#include "algorithm/compression/uniform.h"

namespace chorus::inline compression {
namespace {

BucketFrame sign_frame(const SignConfig& config) {
  return {config.zeros ? Bits::k2 : Bits::k1, 0, static_cast<std::size_t>(config.bucket), 1};
}

}  // namespace

void SignConfig::describe(ConfigVisitor& visitor) {
  visitor.field("bucket", bucket, "elements that share a magnitude; a multiple of 8").at_least(8).at_most(1 << 20);
  visitor.field("zeros", zeros, "2 bits per element, so that 0 stays 0; else zeros get a random sign");
  visitor.field("error_feedback", error_feedback, "remember the error and send it later");
  visitor.check([this]() -> std::string { return bucket % 8 == 0 ? "" : "bucket: must be a multiple of 8"; });
}

Numbers SignFilter::encode(std::span<const float> values, Bytes& out, const FilterContext& context) const {
  const BucketFrame frame = sign_frame(config_);
  const auto places = frame.append(out, values.size());
  RandomStream stream(context.key);
  std::vector<std::uint8_t> codes(frame.bucket);
  for (std::size_t begin = 0, bucket = 0; begin < values.size(); begin += frame.bucket, ++bucket) {
    const auto piece = values.subspan(begin, std::min(frame.bucket, values.size() - begin));
    const auto mean = static_cast<float>(sum_of_magnitudes(piece) / static_cast<double>(piece.size()));
    std::memcpy(places.scales + 4 * bucket, &mean, 4);
    for (std::size_t i = 0; i < piece.size(); ++i) {
      if (config_.zeros) {
        codes[i] = piece[i] < 0 ? 2 : piece[i] > 0 ? 1 : 0;
      } else {
        codes[i] = static_cast<std::uint8_t>(piece[i] == 0 ? stream.next_u32() & 1U : piece[i] < 0 ? 1U : 0U);
      }
    }
    pack_codes(std::span(codes).first(piece.size()), frame.bits, places.codes + packed_bytes(begin, frame.bits));
  }
  return {};
}

Numbers SignFilter::decode(std::span<const std::byte> bytes, Numbers, std::size_t size) const {
  const BucketFrame frame = sign_frame(config_);
  const auto parts = frame.read(bytes, size, "sign");
  Numbers values(size);
  std::vector<std::uint8_t> codes(frame.bucket);
  for (std::size_t begin = 0, bucket = 0; begin < size; begin += frame.bucket, ++bucket) {
    const auto piece = std::span(values).subspan(begin, std::min(frame.bucket, size - begin));
    unpack_codes(parts.codes + packed_bytes(begin, frame.bits), frame.bits, std::span(codes).first(piece.size()));
    const float mean = parts.scales[bucket];
    const float decoded[] = {config_.zeros ? 0 : mean, config_.zeros ? mean : -mean, -mean, 0};
    for (std::size_t i = 0; i < piece.size(); ++i) piece[i] = decoded[codes[i] & 3];
  }
  return values;
}

namespace {

const Registration<Filters, SignConfig> kRegisteredSign{
    "sign", "one bit per element: signSGD (Bernstein et al. 2018)",
    [](const SignConfig& config) { return std::make_unique<SignFilter>(config); }};

}  // namespace
}  // namespace chorus::inline compression
