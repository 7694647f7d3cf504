#pragma once

#include "algorithm/compression/uniform.h"

namespace chorus::inline compression {

struct QsgdConfig {
  enum class Norm { kL2, kMax };

  Bits bits = Bits::k8;
  std::int64_t bucket = 512;  ///< elements that share a norm (the paper's d)
  Norm norm = Norm::kL2;      ///< max: as in the paper's section 4, with less noise

  void describe(ConfigVisitor& visitor);
};

/// QSGD (Alistarh et al. 2017, section 3.1). With s levels, in every bucket v
///     Q(v_i) = |v| sgn(v_i) xi_i,   xi_i = l / s or (l + 1) / s for l <= s |v_i| / |v| < l + 1, with mean |v_i| / |v|
/// so E[Q(v)] = v and E|Q(v) - v|^2 <= min(n / s^2, sqrt(n) / s) |v|^2 for n elements per bucket. An element takes b
/// bits: the level in the low b - 1, s = 2^(b-1) - 1, the sign above it. The paper uses a variable-length code instead;
/// append the filter zstd for a similar gain. Bytes: bits, norm (2: l2, 3: max), u16 0, u32 bucket; for each bucket
/// float32 |v|; the codes.
class QsgdFilter : public Filter {
 public:
  explicit QsgdFilter(const QsgdConfig& config) : config_(config) {}

  Stage stage() const override { return Stage::kPack; }
  Numbers encode(std::span<const float> values, Bytes& out, const FilterContext& context) const override;
  Numbers decode(std::span<const std::byte> bytes, Numbers left, std::size_t size) const override;

 private:
  QsgdConfig config_;
};

}  // namespace chorus::inline compression
