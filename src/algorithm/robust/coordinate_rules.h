#pragma once

#include "algorithm/robust/robust_rule.h"

namespace chorus::inline robust {

struct MedianConfig {
  MixingConfig mixing = {};

  void describe(ConfigVisitor& visitor) { mixing.describe(visitor); }
};

/// Coordinate-wise median (Yin et al. 2018, definition 1) over the clients; for an even number of clients, the mean of
/// the two middle values. Needs a majority of honest clients.
class Median : public RobustRule {
 public:
  explicit Median(const MedianConfig& config) : RobustRule(config.mixing) {}

 protected:
  at::Tensor combine(Rows rows, const std::string& tensor) override;
};

struct TrimmedMeanConfig {
  std::int64_t attackers = 1;  ///< f: values dropped at each end
  MixingConfig mixing = {};

  void describe(ConfigVisitor& visitor);
};

/// Coordinate-wise trimmed mean (Yin et al. 2018, definition 2): of each element the f largest and the f smallest
/// values are dropped and the rest is averaged. n >= 2f + 1.
class TrimmedMean : public RobustRule {
 public:
  explicit TrimmedMean(const TrimmedMeanConfig& config) : RobustRule(config.mixing), config_(config) {}

 protected:
  std::size_t least_rows() const override { return 2 * static_cast<std::size_t>(config_.attackers) + 1; }
  at::Tensor combine(Rows rows, const std::string& tensor) override;

 private:
  TrimmedMeanConfig config_;
};

at::Tensor coordinate_median(Rows rows);

/// The median [c] of each column of sorted values [n, c].
at::Tensor median_of_sorted(const at::Tensor& sorted);

}  // namespace chorus::inline robust
