#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "application/text/tokenizer.h"
#include "core/base/rng.h"

namespace chorus::inline tasks {

/// BERT's masking (Devlin et al. 2019, section 3.1): each token that is not a special one is chosen with a probability;
/// of the chosen, 80 % become [MASK], 10 % a random token, 10 % stay. The model has to say what stood there.
struct MaskingOptions {
  double probability = 0.15;
  double masked = 0.8;    ///< of the chosen
  double replaced = 0.1;  ///< of the chosen; the rest stays as it is
};

class Masking {
 public:
  /// ConfigError when the tokenizer has no mask token.
  Masking(const Tokenizer& tokenizer, const MaskingOptions& options);

  /// Changes `ids` and appends the places that were chosen, ascending. What is drawn depends on the stream and on the
  /// number of tokens only.
  void apply(std::span<std::int64_t> ids, RandomStream& stream, std::vector<std::int64_t>& places) const;

 private:
  const Tokenizer& tokenizer_;
  MaskingOptions options_;
  std::int64_t mask_ = 0;
  std::vector<std::int32_t> ordinary_;  // tokens that may replace another: no special ones
};

}  // namespace chorus::inline tasks
