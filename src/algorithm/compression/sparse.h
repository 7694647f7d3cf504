#pragma once

#include "core/ports/filter.h"

namespace chorus::inline compression {

struct SparseConfig {
  double k = 0.01;             ///< share of elements that is sent, up to 1
  bool error_feedback = true;  ///< remembers the others and sends them later

  void describe(ConfigVisitor& visitor);
};

/// How many of `size` elements are kept: k * size, rounded, at least one.
std::size_t kept_count(double k, std::size_t size);

/// The k largest elements by magnitude (Aji and Heafield 2017; Stich et al. 2018); ties go to the lower index. Without
/// error feedback small elements are never sent.
/// Leaves the kept elements in the order of their positions. Bytes: the positions (bit_packing.h).
class TopKFilter : public Filter {
 public:
  explicit TopKFilter(const SparseConfig& config) : config_(config) {}

  Stage stage() const override { return Stage::kReduce; }
  Numbers encode(std::span<const float> values, Bytes& out, const FilterContext& context) const override;
  std::size_t left(std::span<const std::byte> bytes, std::size_t size) const override;
  Numbers decode(std::span<const std::byte> bytes, Numbers left, std::size_t size) const override;
  std::optional<ErrorFeedback> feedback() const override {
    return config_.error_feedback ? std::optional(ErrorFeedback{}) : std::nullopt;
  }

 private:
  SparseConfig config_;
};

/// k elements at random positions (Konecny et al. 2016; Stich et al. 2018), which follow from an 8-byte seed. Without
/// error feedback they are multiplied by size / k, so that the mean is right: E[decoded] = x.
/// Leaves the kept elements in the order of their positions. Bytes: u64, the seed of the positions.
class RandomKFilter : public Filter {
 public:
  explicit RandomKFilter(const SparseConfig& config) : config_(config) {}

  Stage stage() const override { return Stage::kReduce; }
  Numbers encode(std::span<const float> values, Bytes& out, const FilterContext& context) const override;
  std::size_t left(std::span<const std::byte> bytes, std::size_t size) const override;
  Numbers decode(std::span<const std::byte> bytes, Numbers left, std::size_t size) const override;
  std::optional<ErrorFeedback> feedback() const override {
    return config_.error_feedback ? std::optional(ErrorFeedback{}) : std::nullopt;
  }

 private:
  SparseConfig config_;
};

}  // namespace chorus::inline compression
