#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "application/text/aligned_text.h"
#include "application/text/charsmap.h"
#include "application/text/tokenizer_spec.h"

namespace chorus::inline text {

/// Runs the normalization steps of a tokenizer over a text and tracks offsets. Immutable and thread-safe. ASCII text
/// takes one table look-up per byte when the steps allow it.
///
///   Normalizer normalizer(spec.normalizer);
///   normalizer.run(text, spare);   // text: in and out; spare: a scratch buffer
class Normalizer {
 public:
  Normalizer() : Normalizer(std::vector<NormalizerStep>{}) {}
  /// std::invalid_argument when a step's data is damaged.
  explicit Normalizer(const std::vector<NormalizerStep>& steps);

  void run(AlignedText& text, AlignedText& spare) const;
  /// The same without offsets (for added tokens that are matched in normalized text).
  std::string run(std::string_view text) const;

 private:
  struct Step {
    NormalizerStep spec;
    std::shared_ptr<const Charsmap> charsmap;
    std::array<bool, 128> plain{};  ///< ASCII without a rule
  };
  void run_step(const Step& step, AlignedText& text, AlignedText& spare) const;
  void build_ascii_table();

  std::vector<Step> steps_;
  /// ASCII byte -> ASCII byte, or kSlow where the result depends on context or is not one byte.
  static constexpr std::uint8_t kSlow = 0xFF;
  std::array<std::uint8_t, 128> ascii_{};
};

}  // namespace chorus::inline text
