#pragma once

#include "core/ports/filter.h"

namespace chorus::inline compression {

struct SignConfig {
  std::int64_t bucket = 4096;   ///< elements that share a magnitude
  bool zeros = false;           ///< 2 bits per element, so that 0 stays 0; else zeros get a random sign
  bool error_feedback = false;  ///< EF-signSGD

  void describe(ConfigVisitor& visitor);
};

/// One bit per element: its sign, and the mean magnitude of a bucket, decoded as +-mean |x| (Bernstein et al. 2018;
/// with error_feedback EF-signSGD, Karimireddy et al. 2019). The majority vote is the algorithm `signsgd`
/// (sign_vote.h), which uses signs only.
///
/// Exact zeros get a random sign each, so that they do not bias a vote. In networks with trainable word embeddings most
/// elements are zero; `zeros` keeps them.
/// Bytes: bits (1 or 2), u8 0, u16 0, u32 bucket; for each bucket float32 mean |x|; the signs, 1 for negative (2 bits:
/// 0 for 0, 1, 2 for negative), the first in the lowest bits.
class SignFilter : public Filter {
 public:
  explicit SignFilter(const SignConfig& config) : config_(config) {}

  Stage stage() const override { return Stage::kPack; }
  Numbers encode(std::span<const float> values, Bytes& out, const FilterContext& context) const override;
  Numbers decode(std::span<const std::byte> bytes, Numbers left, std::size_t size) const override;
  std::optional<ErrorFeedback> feedback() const override {
    return config_.error_feedback ? std::optional(ErrorFeedback{}) : std::nullopt;
  }

 private:
  SignConfig config_;
};

}  // namespace chorus::inline compression
