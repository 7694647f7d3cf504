#pragma once

#include "core/ports/filter.h"

namespace chorus::inline compression {

struct TopAnswersConfig {
  std::int64_t classes = 2;  ///< logits per prediction; required
  std::int64_t keep = 1;     ///< logits kept per prediction

  void describe(ConfigVisitor& visitor);
};

/// Predictions as their most probable classes and one residual, for federated distillation. Of each prediction with
/// `classes` logits, the `keep` largest remain, and r = log(mean of exp(others)) stands for all others: the
/// probabilities of the kept classes are exact, and the remaining probability is spread evenly. Ties go to the smaller
/// class.
///
///     compression: {up: [{name: top_answers, classes: 20, keep: 3}, fp16]}
///
/// Other tensors than predictions skip this filter (MessageFilters).
///
/// Bytes: for each prediction the kept classes, ascending, one byte each (two if there are more than 256). Leaves for
/// the next filter: their logits in that order, then r.
class TopAnswers : public Filter {
 public:
  explicit TopAnswers(const TopAnswersConfig& config) : config_(config) {}

  Stage stage() const override { return Stage::kReduce; }
  std::int64_t answer_size() const override { return config_.classes; }
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
