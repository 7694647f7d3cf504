#pragma once

#include "core/ports/filter.h"

namespace chorus::inline compression_zstd {

struct ZstdConfig {
  std::int64_t level = 3;

  void describe(ConfigVisitor& visitor);
};

/// Entropy coding with Zstandard (RFC 8878) of all bytes that earlier filters left. Bytes: u64, their number, and one
/// frame.
class ZstdFilter : public Filter {
 public:
  explicit ZstdFilter(const ZstdConfig& config) : config_(config) {}

  Stage stage() const override { return Stage::kEntropy; }
  Bytes squeeze(std::span<const std::byte> bytes) const override;
  Bytes unsqueeze(std::span<const std::byte> bytes, std::size_t most) const override;

 private:
  ZstdConfig config_;
};

}  // namespace chorus::inline compression_zstd
