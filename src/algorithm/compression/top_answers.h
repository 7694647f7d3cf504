#pragma once

#include "core/ports/filter.h"

namespace chorus::inline compression {

struct TopAnswersConfig {
  std::int64_t classes = 2;  ///< numbers of one answer; must be given
  std::int64_t keep = 1;     ///< of them

  void describe(ConfigVisitor& visitor);
};

/// Predictions by their most probable classes and one residual, for federated distillation. Of each answer, `classes`
/// logits, the `keep` largest remain, and one number stands for all others, r = log(mean of exp(others)): the
/// probabilities of those that remain are exact, and the rest of the probability is spread evenly. The smaller class
/// wins a tie.
///
///     compression: {up: [{name: top_answers, classes: 20, keep: 3}, fp16]}
///
/// Bytes: for each answer the classes kept, rising, one byte each (two where there are more than 256). What is left for
/// the next filter: their logits in that order, then r.
class TopAnswers : public Filter {
 public:
  explicit TopAnswers(const TopAnswersConfig& config) : config_(config) {}

  Stage stage() const override { return Stage::kReduce; }
  Numbers encode(std::span<const float> values, Bytes& out, const FilterContext& context) const override;
  std::size_t left(std::span<const std::byte> bytes, std::size_t size) const override;
  Numbers decode(std::span<const std::byte> bytes, Numbers numbers, std::size_t size) const override;

 private:
  std::size_t answers_in(std::size_t size) const;
  std::size_t classes() const { return static_cast<std::size_t>(config_.classes); }
  std::size_t keep() const { return static_cast<std::size_t>(config_.keep); }
  std::size_t width() const { return classes() > 256 ? 2 : 1; }

  TopAnswersConfig config_;
};

}  // namespace chorus::inline compression
