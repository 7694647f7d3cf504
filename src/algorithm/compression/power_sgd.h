#pragma once

#include "core/ports/filter.h"

namespace chorus::inline compression {

struct PowerSgdConfig {
  std::int64_t rank = 4;
  bool warm_start = true;      ///< starts from the last round's right factor
  bool error_feedback = true;  ///< remembers the loss and sends it later

  void describe(ConfigVisitor& visitor);
};

/// Low-rank approximation by one step of power iteration (PowerSGD, Vogels et al. 2019, algorithm 1). A parameter M [n,
/// m] (its first dimension and all others) becomes
///     P = orthogonal columns of M Q,   Q' = M^T P,   decoded as P Q'^T
/// where Q [m, rank] is the sender's last Q', or standard normal at first. A matrix of at most that rank is exact.
/// Vectors stay unchanged, and so do matrices for which P and Q would be no smaller. In the paper workers average P
/// before they compute Q'; clients that reply once each send their own P and Q', and the server averages the products P
/// Q'^T.
///
/// Leaves, for every parameter in order, P and Q' row by row, or the parameter. Needs the layout; vectors without one
/// stay unchanged.
/// Bytes: u32 rank, u32 number of parameters, and for each u32 n, u32 m (a vector has m = 1).
class PowerSgdFilter : public Filter {
 public:
  explicit PowerSgdFilter(const PowerSgdConfig& config) : config_(config) {}

  Stage stage() const override { return Stage::kReduce; }
  Numbers encode(std::span<const float> values, Bytes& out, const FilterContext& context) const override;
  std::size_t left(std::span<const std::byte> bytes, std::size_t size) const override;
  Numbers decode(std::span<const std::byte> bytes, Numbers left, std::size_t size) const override;
  std::optional<ErrorFeedback> feedback() const override {
    return config_.error_feedback ? std::optional(ErrorFeedback{}) : std::nullopt;
  }
  bool remembers() const override { return config_.warm_start; }
  bool needs_blocks() const override { return true; }

 private:
  PowerSgdConfig config_;
};

}  // namespace chorus::inline compression
