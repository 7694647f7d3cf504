#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "application/text/tokenizer.h"
#include "core/base/rng.h"

namespace chorus::inline tasks {

/// BERT's masking (Devlin et al. 2019, section 3.1): each ordinary token is chosen with a probability; of the chosen,
/// 80 % become [MASK], 10 % a random token, 10 % are unchanged. The model predicts the original tokens.
struct MaskingOptions {
  double probability = 0.15;
  double masked = 0.8;    ///< of the chosen
  double replaced = 0.1;  ///< of the chosen; the rest is unchanged
};

class Masking {
 public:
  /// ConfigError if the tokenizer has no mask token.
  Masking(const Tokenizer& tokenizer, const MaskingOptions& options);

  /// Changes `ids` and appends the indices of the chosen tokens, ascending. The draws depend only on the stream and the
  /// number of tokens.
  void apply(std::span<std::int64_t> ids, RandomStream& stream, std::vector<std::int64_t>& places) const;

 private:
  const Tokenizer& tokenizer_;
  MaskingOptions options_;
  std::int64_t mask_ = 0;
  std::vector<std::int32_t> ordinary_;  // tokens that may replace another one: no special ones
};

}  // namespace chorus::inline tasks
