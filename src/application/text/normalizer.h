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

namespace chorus::text {

/// Runs the normalisation steps of a tokenizer over a text, keeping track of offsets. Immutable, so any number of
/// threads may use one. Text that is all ASCII takes one table look-up a byte when the steps allow it.
///
///   Normalizer normalizer(spec.normalizer);
///   normalizer.run(text, spare);   // text: in and out; spare: a buffer to work in
class Normalizer {
 public:
  Normalizer() : Normalizer(std::vector<NormalizerStep>{}) {}
  /// Throws std::invalid_argument when a step's data is damaged.
  explicit Normalizer(const std::vector<NormalizerStep>& steps);

  void run(AlignedText& text, AlignedText& spare) const;
  /// The same for a string whose offsets nobody needs (added tokens that are looked for in normalised text).
  std::string run(std::string_view text) const;

 private:
  struct Step {
    NormalizerStep spec;
    std::shared_ptr<const Charsmap> charsmap;
    std::array<bool, 128> plain{};  ///< ASCII that no rule touches
  };
  void run_step(const Step& step, AlignedText& text, AlignedText& spare) const;
  void build_ascii_table();

  std::vector<Step> steps_;
  /// ASCII byte -> ASCII byte, or kSlow where the steps do not map it to exactly one whatever stands beside it.
  static constexpr std::uint8_t kSlow = 0xFF;
  std::array<std::uint8_t, 128> ascii_{};
};

}  // namespace chorus::text
