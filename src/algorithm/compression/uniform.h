#pragma once

#include "algorithm/compression/bit_packing.h"
#include "core/ports/filter.h"

namespace chorus::inline compression {

struct UniformFilterConfig {
  enum class Scale { kMaxAbs, kRange };

  Bits bits = Bits::k8;
  std::int64_t bucket = 512;     ///< elements that share a scale
  Scale scale = Scale::kMaxAbs;  ///< grid from -max |x| to max |x| that contains 0, or from min to max
  bool stochastic = true;        ///< rounds up or down at random, so that the mean is right; else to nearest

  void describe(ConfigVisitor& visitor);
};

/// The stochastic uniform quantizer (Konecny et al. 2016, section 3). In every bucket x becomes a point of a grid with
/// step d: q = floor((x - origin) / d + u), u uniform in [0, 1), decoded as origin + d q. E[decoded] = x, and the
/// error is below d.
///     max_abs   origin 0,       d = max |x| / (2^(b-1) - 1)     2 bits: -1, 0, 1 (TernGrad, Wen et al. 2017)
///     range     origin min x,   d = (max x - min x) / (2^b - 1)
/// Bytes: bits, scale (0 or 1), u16 0, u32 bucket; for each bucket float32 d (range: origin, d); the codes, q or
/// q + 2^(b-1) - 1, b bits each.
class UniformFilter : public Filter {
 public:
  explicit UniformFilter(const UniformFilterConfig& config) : config_(config) {}

  Stage stage() const override { return Stage::kPack; }
  Numbers encode(std::span<const float> values, Bytes& out, const FilterContext& context) const override;
  Numbers decode(std::span<const std::byte> bytes, Numbers left, std::size_t size) const override;

  const UniformFilterConfig& config() const { return config_; }

 private:
  UniformFilterConfig config_;
};

/// Fields of every quantizer.
void describe_bits(ConfigVisitor& visitor, Bits& bits, std::int64_t& bucket);

/// The layout that bucketed codes share: an 8-byte header with the settings, `scales` float32 per bucket, the codes.
/// Both ends build it from the same configuration; bytes of a peer with other settings are refused.
struct BucketFrame {
  Bits bits = Bits::k8;
  int kind = 0;
  std::size_t bucket = 512, scales = 1;

  std::size_t buckets(std::size_t size) const { return (size + bucket - 1) / bucket; }
  std::size_t bytes(std::size_t size) const { return 8 + buckets(size) * scales * 4 + packed_bytes(size, bits); }
  /// Appends space for everything to `out`, writes the header, and returns pointers to the other parts.
  struct Places {
    std::byte* scales;
    std::byte* codes;
  };
  Places append(Filter::Bytes& out, std::size_t size) const;
  /// DataError when the bytes do not fit this many values, or a scale is not finite.
  struct Parts {
    Numbers scales;
    const std::byte* codes;
  };
  Parts read(std::span<const std::byte> bytes, std::size_t size, const char* who) const;
};

}  // namespace chorus::inline compression
